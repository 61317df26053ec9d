-- Of revision 0004: keys. Tenants that were ever given a key, and the keys: of a secret only its SHA-256 is here.

create table perdure.tenants (
    tenant_id  text not null primary key,
    created_at timestamptz not null
);

create table perdure.api_keys (
    tenant_id    text not null,
    id           text not null,
    sha256       text not null,
    name         text not null,
    scopes       json not null,
    created_at   timestamptz not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    primary key (tenant_id, id)
);
create unique index api_keys_by_id on perdure.api_keys (id);
