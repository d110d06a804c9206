// Keeps the pets of petstore-server in PostgreSQL: --store store.mjs
import { readFileSync } from 'node:fs'
import pg from 'pg'

const SCHEMA = readFileSync(new URL('schema.sql', import.meta.url), 'utf8')
const PAGE = `select id, json from pets
  where id > $1 and ($3::text is null or status = $3) order by id limit $2`
const OUT_OF_RANGE = '22003' // after the id 2^63-1
// After these errors a pet may have been added; after any other one the database rolled back.
const MAY_BE_COMMITTED = /^(?:08|40003|57P)/

export default async function openStore() {
  const pool = new pg.Pool({
    connectionString: process.env.DATABASE_URL,
    max: 10,
    connectionTimeoutMillis: 2_000,
    statement_timeout: 4_000, // then the database cancels it
    query_timeout: 5_000, // then the connection is given up
  })
  pool.on('error', () => {}) // an idle connection has ended: the pool opens another one
  await pool.query(SCHEMA)

  async function rowsOf(statement, ...values) {
    const { rows } = await pool.query(statement, values)
    return rows
  }

  return {
    async page({ limit, after, status }) {
      const rows = await rowsOf(PAGE, after, limit + 1, status) // one more: is there a next page?
      const shown = rows.slice(0, limit)
      const next = rows.length > limit ? BigInt(shown[limit - 1].id) : undefined
      return { json: `[${shown.map(({ json }) => json).join(',')}]`, next }
    },

    async get(id) {
      const [row] = await rowsOf('select json from pets where id = $1', id)
      return row?.json
    },

    async add(pet) {
      try {
        const [{ id, json }] = await rowsOf('select * from add_pet($1, $2)', pet.status, members(pet))
        return { ok: true, id: BigInt(id), json }
      } catch (cause) {
        if (cause.code === OUT_OF_RANGE) return { ok: false, reason: 'store_full' }
        const isRolledBack = cause instanceof pg.DatabaseError && !MAY_BE_COMMITTED.test(cause.code)
        if (!isRolledBack && cause.syscall !== 'connect') throw cause
        return { ok: false, reason: 'storage_failed', cause }
      }
    },

    async reset(pets) {
      const ids = pets.map(({ id }, at) => id ?? at + 1)
      const statuses = pets.map(({ status }) => status)
      const jsons = pets.map((pet, at) => `{"id":${ids[at]},${members(pet)}`)
      await rowsOf('select reset_pets($1, $2, $3)', ids, statuses, jsons)
      return true
    },

    async isWritable() {
      const [row] = await rowsOf('select not pg_is_in_recovery() as is_writable')
      return row.is_writable
    },

    close: () => pool.end(),
  }
}

/** The JSON of a pet after its id. JSON.stringify refuses a bigint. */
function members({ name, categoryId, status }) {
  const last = status === undefined ? '' : `,"status":"${status}"`
  return `"name":${JSON.stringify(name)},"categoryId":${categoryId}${last}}`
}
