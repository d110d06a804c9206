-- Run whole, in one transaction. Instances that start together take turns.
select pg_advisory_xact_lock(7387);

-- A pet's JSON is text, which keeps each name code unit for code unit: a NUL and a lone surrogate
-- are escapes in JSON, and neither jsonb nor the text of the name could hold them.
create table if not exists pets (
  id bigint primary key check (id between 1 and 999999999999999),
  status text check (status in ('available', 'pending', 'sold')),
  json text not null
);

-- A page of one status is a range of this index.
create index if not exists pets_by_status on pets (status, id);

-- Its one row is locked from the assignment of ids to the commit, so that pets appear in ascending
-- order. With a sequence 5 may appear before 4, and a client that walks by `after` would miss 4.
create table if not exists pets_counter (
  only_row boolean primary key default true check (only_row),
  last_id bigint not null
);
insert into pets_counter (last_id) values (0) on conflict do nothing;

create or replace function reset_pets(ids bigint[], statuses text[], jsons text[]) returns void
language sql as $$
  update pets_counter set last_id = coalesce(ids[cardinality(ids)], 0);
  delete from pets;
  insert into pets (id, status, json) select * from unnest(ids, statuses, jsons);
$$;
