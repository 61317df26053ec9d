create table book (
    isbn text primary key,
    title text not null
);

create table loan (
    isbn text not null references book,
    member integer not null,
    due date not null
);
-- FIXME: a member may hold the same book twice; loan needs a unique constraint
