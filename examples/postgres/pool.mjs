// Connections to PostgreSQL: few, with timeouts, and shared by what is read at the same time.
import { readFileSync } from 'node:fs'
import { setImmediate as endOfTurn } from 'node:timers/promises'
import pg from 'pg'

const SCHEMA = readFileSync(new URL('schema.sql', import.meta.url), 'utf8')

/** Connects when it is first asked: the database may be down until then. */
export function openPool(connectionString) {
  const pool = new pg.Pool({
    connectionString,
    max: 10,
    connectionTimeoutMillis: 2_000, // for a connection, new or free
    statement_timeout: 4_000, // after which the database cancels a statement
    query_timeout: 5_000, // after which it is given up: the connection is lost
    keepAlive: true,
    pipeline: true, // a statement is sent before the one ahead of it is answered
    onConnect: createSchema,
  })
  // A connection that breaks between two statements must not end the process: the pool drops it.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))

  let turn

  /** What is read in one turn of the event loop is sent together, on one connection. */
  async function read(statement, values) {
    turn ??= openTurn()
    const { connected, results } = turn
    const result = connected.then((client) => client.query(statement, values))
    results.push(result)
    return (await result).rows
  }

  function openTurn() {
    const results = []
    const connected = endOfTurn().then(() => {
      turn = undefined
      return pool.connect()
    })
    const release = async (client) => {
      const outcomes = await Promise.allSettled(results)
      client.release(outcomes.some(({ status }) => status === 'rejected'))
    }
    connected.then(release, () => {})
    return { connected, results }
  }

  return { pool, read }
}

async function createSchema(client) {
  const { rows } = await client.query("select to_regclass('pets_counter') is null as is_missing")
  if (rows[0].is_missing) await client.query(SCHEMA)
}
