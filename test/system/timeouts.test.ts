// The time that a client gets, at its real length; all wait at the same time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setInterval } from 'node:timers/promises'
import { launch } from '../process.ts'
import { KEY, RawConnection } from '../support.ts'

const LINE = 'HTTP/1.1\r\nHost: pets.example\r\n'
const CREATE = `POST /v1/pets ${LINE}Authorization: Bearer ${KEY}\r\n`

interface Slow {
  bytes: string
  then?: string // sent again and again
  statuses: readonly number[]
  seconds: number
}

const CLIENTS: Readonly<Record<string, Slow>> = {
  'that never sends a byte': { bytes: '', statuses: [], seconds: 10 },
  'whose head stops': { bytes: `GET /livez ${LINE}`, statuses: [408], seconds: 10 },
  'whose head comes slowly': {
    bytes: `GET /livez ${LINE}`,
    then: 'X: y\r\n',
    statuses: [408],
    seconds: 10,
  },
  'whose body stops': {
    bytes: `${CREATE}Content-Length: 9\r\n\r\n{`,
    statuses: [408],
    seconds: 30,
  },
  'whose chunks come slowly': {
    bytes: `${CREATE}Transfer-Encoding: chunked\r\n\r\n`,
    then: '1\r\n \r\n',
    statuses: [408],
    seconds: 30,
  },
  'that is idle for --keep-alive': {
    bytes: `GET /livez ${LINE}\r\n`,
    statuses: [200],
    seconds: 17,
  },
  'whose second head stops': {
    bytes: `GET /livez ${LINE}\r\nGET`,
    statuses: [200, 408],
    seconds: 10,
  },
}

test('a client that is too slow', { concurrency: true }, async (t) => {
  const executable = [process.execPath, 'dist/main.js']
  const server = await launch(t, ['--api-key', KEY, '--keep-alive', '17'], { executable })
  const order: number[] = [] // seconds of each client, as they are closed
  const tests = Object.entries(CLIENTS).map(([what, { bytes, then, statuses, seconds }]) => {
    return t.test(`${what} is closed after ${seconds} s`, async (t) => {
      const connection = new RawConnection(t, server)
      const begun = performance.now()
      await connection.write(bytes)
      const isClosed = new AbortController()
      void connection.closed.then(() => isClosed.abort())
      const sending = async () => {
        if (then === undefined) return
        for await (const _ of setInterval(1_000, undefined, { signal: isClosed.signal })) {
          await connection.write(then)
        }
      }
      await Promise.all([connection.closed, sending().catch(() => {})])
      const elapsed = (performance.now() - begun) / 1_000
      order.push(seconds)
      const received = await connection.rest()
      const found = received.match(/(?<=HTTP\/1\.1 )\d+/g) ?? []
      assert.deepEqual(found.map(Number), statuses)
      if (statuses.includes(408)) assert.match(received, /"code":"request_timeout"/)
      assert.ok(elapsed > seconds - 0.1, `${elapsed} s`)
    })
  })
  await Promise.all(tests)
  assert.deepEqual(
    order,
    order.toSorted((one, other) => one - other),
  )
  await server.stdout.until(/(?:"status":[^]*){5}/)
  const logged = server.stdout.text.match(/"status":/g) ?? []
  assert.equal(logged.length, 5) // none of the silent one, and none of the probes
})
