// Keeps the pets of petstore-server in PostgreSQL: a Store for its option `store`.
import pg from 'pg'
import { openPool, query } from './pool.mjs'

const MAX_BATCH = 1_000
// After these errors a commit may have happened. After any other one the database rolled back.
const MAY_BE_COMMITTED = /^(?:08|40003|57P)/

/** Prepared once for each connection. */
const statement = (name, text) => ({ name, text, rowMode: 'array' })

const PAGE = statement('page', 'select id, json from pets where id > $1 order by id limit $2')
// With status = $3 the planner may walk the primary key instead, past all pets of other statuses.
const OF_STATUS = 'where (status, id) > ($3, $1) and status <= $3 order by status, id limit $2'
const PAGE_OF_STATUS = statement('page_of_status', `select id, json from pets ${OF_STATUS}`)
const GET = statement('get', 'select json from pets where id = $1')
const ADD = statement(
  'add',
  `with counter as (
     update pets_counter set last_id = last_id + cardinality($1::text[])
     returning last_id - cardinality($1::text[]) as before
   ), added as (
     insert into pets (id, status, json)
     select before + at, status, '{"id":' || before + at || ',' || members
     from counter, unnest($1::text[], $2::text[]) with ordinality as pet (status, members, at)
   )
   select before from counter`,
)
const RESET = 'select reset_pets($1::bigint[], $2::text[], $3::text[])'
const IS_WRITABLE = statement('is_writable', 'select not pg_is_in_recovery()')

/** Connects when it is first asked: the database may be down until then. */
export function openStore(connectionString) {
  const { pool, read } = openPool(connectionString)

  async function page({ limit, after, status }) {
    const values = [after, limit + 1] // one more tells whether the page is the last
    const rows = await (status === undefined
      ? read(PAGE, values)
      : read(PAGE_OF_STATUS, [...values, status]))
    const shown = rows.slice(0, limit)
    const next = rows.length > limit ? Number(shown[limit - 1][0]) : undefined
    return { json: `[${shown.map(([, json]) => json).join()}]`, next }
  }

  const waiting = []
  let isAdding = false

  /** Commits take turns, so what arrives during one is added together in the next. */
  function add(pet) {
    return new Promise((resolve) => {
      waiting.push({ pet, resolve })
      if (!isAdding) void addWaiting()
    })
  }

  async function addWaiting() {
    isAdding = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, MAX_BATCH)
      const outcomes = await insert(batch.map(({ pet }) => pet))
      for (const [at, { resolve }] of batch.entries()) resolve(outcomes[at])
    }
    isAdding = false
  }

  /** Adds pets, all or none. */
  async function insert(pets) {
    const members = pets.map(membersOf)
    let client
    try {
      client = await pool.connect()
      const values = [pets.map(({ status }) => status), members]
      const { rows } = await query(client, ADD, values)
      client.release()
      const first = Number(rows[0][0]) + 1
      return members.map((rest, at) => ({ ok: true, ...withId(first + at, rest) }))
    } catch (cause) {
      client?.release(cause)
      const isRefused = cause instanceof pg.DatabaseError && !MAY_BE_COMMITTED.test(cause.code)
      const reason = isRefused || client === undefined ? 'storage_failed' : 'outcome_unknown'
      return pets.map(() => ({ ok: false, reason, cause }))
    }
  }

  async function reset(pets) {
    const ids = pets.map(({ id }, at) => id ?? at + 1)
    const jsons = pets.map((pet, at) => withId(ids[at], membersOf(pet)).json)
    await pool.query(RESET, [ids, pets.map(({ status }) => status), jsons])
    return true
  }

  const get = async (id) => (await read(GET, [id]))[0]?.[0]
  const isWritable = async () => (await read(IS_WRITABLE))[0][0]
  return { page, get, add, reset, isWritable, close: () => pool.end() }
}

const withId = (id, members) => ({ id, json: `{"id":${id},${members}` })

/** The JSON of a pet after its id. A categoryId may be a bigint, which JSON.stringify refuses. */
function membersOf({ name, categoryId, status }) {
  const last = status === undefined ? '' : `,"status":"${status}"`
  return `"name":${JSON.stringify(name)},"categoryId":${categoryId}${last}}`
}
