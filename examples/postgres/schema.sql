-- It is run at each start. Instances that start together take turns.
select pg_advisory_xact_lock(7387);

-- The JSON of a pet is text, because jsonb cannot hold every name: "\u0000" is one.
create table if not exists pets (
  id bigint primary key check (id > 0),
  status text,
  json text not null
);
create index if not exists pets_by_status on pets (status, id);

-- Takes turns, too: if 5 appeared before 4, a client that walks by `after` would miss 4. In
-- plpgsql, because there each statement sees what was committed while it waited for its turn.
create or replace function add_pet(text, text) returns setof pets language plpgsql as $$
begin
  perform pg_advisory_xact_lock(7387);
  return query insert into pets
    select next, $1, '{"id":' || next || ',' || $2
    from (select coalesce(max(id), 0) + 1 as next from pets) as latest
    returning *;
end $$;

create or replace function reset_pets(bigint[], text[], text[]) returns void
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(7387);
  delete from pets;
  insert into pets select * from unnest($1, $2, $3);
end $$;
