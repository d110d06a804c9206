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
    query_timeout: 5_000, // after which a statement is given up: the connection is lost
    keepAlive: true,
    pipeline: true, // a statement is sent before the one ahead of it is answered
    onConnect: prepare,
  })
  // A connection that breaks between two statements must not end the process: the pool drops it.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))

  let turn

  /** What is read in one turn of the event loop is sent together, on one connection. */
  async function read(statement, values) {
    turn ??= openTurn()
    const { connected, results } = turn
    const result = connected.then((client) => query(client, statement, values))
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

const ABOUT = "select pg_backend_pid() as pid, to_regclass('pets_counter') is null as is_missing"

/** Connections through PgBouncer: each statement may go to another session of the database. */
const bounced = new WeakSet()

async function prepare(client) {
  const { rows } = await client.query(ABOUT)
  const [{ pid, is_missing }] = rows
  // PgBouncer gives a process id of its own.
  if (pid !== client.processID) bounced.add(client)
  else await client.query('set statement_timeout = 4000') // milliseconds, then it is cancelled
  if (is_missing) await client.query(SCHEMA)
}

/** Runs a statement, which the database keeps prepared under its name where that is possible. */
export function query(client, statement, values) {
  const { name, ...unnamed } = statement
  return client.query(bounced.has(client) ? unnamed : statement, values)
}
