-- What signs for the agents that are served here, for all replicas: an agent's first key is made by whoever needs one, the others
-- by an operator. A key's id is the beginning of the RFC 7638 thumbprint of its public part, and the fragment of its DID URL. One
-- that is retired signs no more and is still published, so that what it has signed can be verified.
create table perdure.envelope_keys (
    tenant_id   text not null,
    did         text not null,
    id          text not null,
    private_key bytea not null,
    made_at     timestamptz not null,
    retired_at  timestamptz,
    primary key (tenant_id, did, id)
);
