// Keeps the pets of petstore-server in PostgreSQL: --store store.mjs
import { readFileSync } from 'node:fs'
import pg from 'pg'

const SCHEMA = readFileSync(new URL('schema.sql', import.meta.url), 'utf8')
const OUT_OF_RANGE = '22003' // after the id 2^63-1

export default async function openStore() {
  const pool = new pg.Pool({
    connectionString: process.env.DATABASE_URL,
    connectionTimeoutMillis: 2_000,
    statement_timeout: 4_000, // then the database cancels it
    query_timeout: 5_000, // then the connection is given up
  })
  pool.on('error', () => {}) // an idle connection has ended: the pool opens another one
  await pool.query(SCHEMA)

  async function petsOf(statement, ...values) {
    const { rows } = await pool.query(statement, values)
    return rows.map(petOf)
  }

  return {
    list: ({ limit, after, status }) =>
      petsOf(
        `select * from pets where id > $1 and ($3::text is null or status = $3)
          order by id limit $2`,
        after,
        limit,
        status,
      ),

    async get(id) {
      const [pet] = await petsOf('select * from pets where id = $1', id)
      return pet
    },

    async add(pets) {
      try {
        return await petsOf('select * from add_pets($1, $2, $3)', ...columnsOf(pets))
      } catch (error) {
        throw error.code === OUT_OF_RANGE ? Object.assign(error, { code: 'store_full' }) : error
      }
    },

    async reset(pets) {
      const ids = pets.map(({ id }, at) => id ?? at + 1)
      await pool.query('select reset_pets($1, $2, $3, $4)', [ids, ...columnsOf(pets)])
    },

    close: () => pool.end(),
  }
}

/** A name is stored as JSON, which escapes what PostgreSQL's text cannot hold: "\u0000" is one. */
function columnsOf(pets) {
  return [
    pets.map(({ name }) => JSON.stringify(name)),
    pets.map(({ categoryId }) => categoryId),
    pets.map(({ status }) => status),
  ]
}

/** pg returns a bigint as text. */
function petOf({ id, name, category_id, status }) {
  const pet = { id: BigInt(id), name: JSON.parse(name), categoryId: BigInt(category_id) }
  return status === null ? pet : { ...pet, status }
}
