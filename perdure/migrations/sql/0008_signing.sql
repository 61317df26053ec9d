-- What signs responses, for all replicas: the first key is made by whoever needs one, the others by an operator. A key's id is
-- the RFC 7638 thumbprint of its public part.
create table perdure.signing_keys (
    tenant_id   text not null,
    id          text not null,
    private_key bytea not null,
    made_at     timestamptz not null,
    primary key (tenant_id, id)
);
