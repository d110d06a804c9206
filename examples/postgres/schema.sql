-- It is run at each start. Instances that start together take turns.
select pg_advisory_xact_lock(7387);

create table if not exists pets (
  id bigint primary key check (id > 0),
  name text not null, -- as JSON
  category_id bigint not null,
  status text
);
create index if not exists pets_by_status on pets (status, id);

-- Takes turns, too: if 5 appeared before 4, a client that walks by `after` would miss 4. In
-- plpgsql, because there each statement sees what was committed while it waited for its turn.
create or replace function add_pets(text[], bigint[], text[]) returns setof pets
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(7387);
  return query insert into pets
    select latest.id + new.place, new.name, new.category_id, new.status
    from (select coalesce(max(pets.id), 0) as id from pets) as latest,
      unnest($1, $2, $3) with ordinality as new (name, category_id, status, place)
    order by new.place
    returning *;
end $$;

create or replace function reset_pets(bigint[], text[], bigint[], text[]) returns void
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(7387);
  delete from pets;
  insert into pets select * from unnest($1, $2, $3, $4);
end $$;
