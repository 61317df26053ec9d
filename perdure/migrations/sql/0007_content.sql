-- Media that messages name by id instead of carrying it: uploaded by clients, returned by tools. It belongs to a tenant, not to
-- a session, so that it can be passed on. bytes never change.
create table perdure.contents (
    tenant_id  text not null,
    id         text not null,
    media_type text not null,
    filename   json,
    size       bigint not null,
    sha256     text not null,
    bytes      bytea not null,
    made_by    text not null,
    made_at    timestamptz not null,
    expires_at timestamptz,
    primary key (tenant_id, id)
);
alter table perdure.contents alter column bytes set storage external;
create unique index contents_by_id on perdure.contents (id);
create index contents_by_time on perdure.contents (tenant_id, made_at desc, id desc);
create index contents_expiring on perdure.contents (expires_at) where expires_at is not null;

-- What signs URLs of content, for all replicas: made by the first that needs it.
create table perdure.url_keys (
    tenant_id text not null,
    id        text not null,
    secret    bytea not null,
    made_at   timestamptz not null,
    primary key (tenant_id, id)
);
