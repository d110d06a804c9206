import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Outcome } from '../../src/http/exchange.ts'
import { createLog, type Log, type LogFormat, NO_LOG } from '../../src/http/log.ts'
import { FakeStream } from '../support.ts'

const TIME = '2026-02-03T04:05:06.789Z'
const MAX_WAITING_BYTES = 16 * 2 ** 20

/** An outcome, flat: with what its head says of it beside it. */
interface Entry extends Omit<Outcome, 'head' | 'time'> {
  method?: string
  target?: string
  requestId?: string
  forwardedFor?: string
}

function outcomeOf({ method, target, requestId, forwardedFor, ...more }: Entry): Outcome {
  const rest = { ...more, time: Date.parse(TIME) }
  if (method === undefined || target === undefined) return rest
  const headers = { 'x-request-id': requestId, 'x-forwarded-for': forwardedFor }
  return { ...rest, head: { method, target, headers } }
}

const ENTRY: Entry = {
  method: 'GET',
  target: '/v1/pets?limit=5&status=sold',
  operation: 'listPets',
  status: 200,
  ms: 1.2345678,
  bytes: 42,
  requestId: 'r-1',
  remote: '127.0.0.1',
  forwardedFor: '203.0.113.9, 198.51.100.7',
}

interface Fixture {
  log: Log
  stream: FakeStream
}

function createFixture(t: TestContext, format: LogFormat, redact = (text: string) => text): Fixture {
  t.mock.timers.enable({ apis: ['Date'], now: Date.parse(TIME) })
  const stream = new FakeStream()
  return { stream, log: createLog(format, stream, redact) }
}

/** What is written of one entry. */
async function written(t: TestContext, format: LogFormat, entry: Entry, redact?: (text: string) => string) {
  const { log, stream } = createFixture(t, format, redact)
  log.request(outcomeOf(entry))
  await log.flush()
  return stream.text
}

describe('a log that is off', () => {
  test('writes nothing, says so, and is flushed at once', async (t) => {
    const { log, stream } = createFixture(t, 'off')
    assert.equal(log, NO_LOG)
    assert.equal(log.on, false)
    log.request(outcomeOf(ENTRY))
    log.event('error', 'nobody hears this')
    await log.flush()
    await turn()
    assert.deepEqual(stream.writes, [])
    assert.equal(stream.listenerCount('error'), 0)
  })
})

describe('a log in JSON', () => {
  test('holds one object a line: of a request all but header, body and query values', async (t) => {
    const line = await written(t, 'json', ENTRY)
    assert.ok(line.endsWith('}\n'))
    assert.deepEqual(JSON.parse(line), {
      time: TIME,
      method: 'GET',
      path: '/v1/pets?limit=…&status=…',
      operation: 'listPets',
      status: 200,
      ms: 1.235,
      bytes: 42,
      requestId: 'r-1',
      remote: '127.0.0.1',
      forwardedFor: '203.0.113.9, 198.51.100.7',
    })
  })

  test('leaves out what a request has not', async (t) => {
    const line = await written(t, 'json', { status: 400, ms: 0, bytes: 9, remote: undefined })
    assert.equal(line, `{"time":"${TIME}","status":400,"ms":0,"bytes":9}\n`)
  })

  test('tells requests of one target apart by method and operation', async (t) => {
    for (const [method, operation] of [
      ['GET', 'listPets'],
      ['POST', 'createPet'],
      ['PUT', undefined],
      ['GET', undefined],
      ['GET', 'listPets'],
    ] as const) {
      const line = JSON.parse(await written(t, 'json', { ...ENTRY, target: '/v1/pets', method, operation }))
      assert.deepEqual([line.method, line.path, line.operation], [method, '/v1/pets', operation])
      t.mock.timers.reset()
    }
  })

  test('holds a null for the status where the client left', async (t) => {
    const line = await written(t, 'json', { ...ENTRY, status: undefined })
    assert.match(line, /,"status":null,/)
  })

  test('escapes control characters, so that a line stays a line', async (t) => {
    const line = await written(t, 'json', { ...ENTRY, forwardedFor: 'a\n\u001b[31m"b' })
    assert.match(line, /"forwardedFor":"a\\n\\u001b\[31m\\"b"\}\n$/)
  })

  test('holds time, level and message of an event', async (t) => {
    const { log, stream } = createFixture(t, 'json')
    log.event('error', 'Error: "no"\n    at here')
    await log.flush()
    assert.equal(stream.text, `{"time":"${TIME}","level":"error","message":"Error: \\"no\\"\\n    at here"}\n`)
  })
})

describe('a log in text', () => {
  const lines: readonly [what: string, entry: Entry, line: string][] = [
    [
      'all that is known of a request in one line',
      ENTRY,
      'GET /v1/pets?limit=…&status=… 200 1.235 ms 42 B operation=listPets requestId=r-1 remote=127.0.0.1 forwardedFor=203.0.113.9, 198.51.100.7',
    ],
    [
      'no more than is known of a request',
      { method: 'GET', target: '/', status: 404, ms: 0.5, bytes: 60, remote: '::1' },
      'GET / 404 0.5 ms 60 B remote=::1',
    ],
    ['dashes for what could not be read', { status: 400, ms: 0, bytes: 9, remote: undefined }, '- - 400 0 ms 9 B'],
    [
      'no status where the client left',
      { method: 'POST', target: '/v1/pets', status: undefined, ms: 12, bytes: 0, remote: '::1' },
      'POST /v1/pets client left 12 ms 0 B remote=::1',
    ],
    [
      'a question mark for each character that could command a terminal',
      {
        method: 'GET',
        target: '/\u007f\u0000',
        status: 404,
        ms: 0,
        bytes: 0,
        remote: '::1',
        forwardedFor: '\u001b[2J\n\u009bé',
      },
      'GET /?? 404 0 ms 0 B remote=::1 forwardedFor=?[2J??é',
    ],
  ]
  for (const [what, entry, line] of lines) {
    test(`holds ${what}`, async (t) => assert.equal(await written(t, 'text', entry), `${TIME} ${line}\n`))
  }

  test('holds time, level and message of an event, its lines as they are', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    log.event('warn', 'Error: no\n    at here')
    await log.flush()
    assert.equal(stream.text, `${TIME} warn: Error: no\n    at here\n`)
  })
})

describe('a request in a log', () => {
  const targets: readonly [what: string, target: string, path: string][] = [
    ['keeps a path as it was sent', '/v1/%70ets/a=b&c', '/v1/%70ets/a=b&c'],
    ['shows names of the query and hides its values', '/v1/pets?a=1&b=&c&d==2=3', '/v1/pets?a=…&b=…&c&d=…'],
    ['hides a value that holds a question mark', '/v1/pets?a=1?b=2', '/v1/pets?a=…'],
    ['keeps a path with = in front of a query', '/v1/a=b?c=d', '/v1/a=b?c=…'],
    ['shows a query without a value', '/v1/pets?x', '/v1/pets?x'],
    ['blots out a key in the path', '/v1/pets/secret==', '/v1/pets/[key]'],
    ['blots out a key in the path in front of a query', '/v1/pets/secret==?a=1', '/v1/pets/[key]?a=…'],
    ['blots out a key that stands as a name in the query', '/v1/pets?secret==&a=1', '/v1/pets?[key]&a=…'],
    ['hides a key that stands as a value in the query', '/v1/pets?api_key=secret==', '/v1/pets?api_key=…'],
  ]
  for (const [behaviour, target, path] of targets) {
    test(behaviour, async (t) => {
      const line = await written(t, 'json', { ...ENTRY, target }, (text) => text.replaceAll('secret==', '[key]'))
      const entry: unknown = JSON.parse(line)
      assert.ok(typeof entry === 'object' && entry !== null && 'path' in entry)
      assert.equal(entry.path, path)
    })
  }

  for (const format of ['json', 'text'] as const) {
    test(`has keys blotted out of all that the client wrote (${format})`, async (t) => {
      const entry = { ...ENTRY, target: '/secret', requestId: 'secret', forwardedFor: 'secret, 127.0.0.1' }
      const line = await written(t, format, entry, (text) => text.replaceAll('secret', '[key]'))
      assert.doesNotMatch(line, /secret/)
      assert.equal(line.split('[key]').length, 4)
    })
  }
})

describe('the lines of a log', () => {
  test('gather while the event loop turns and leave in one write', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    for (let count = 0; count < 100; count++) log.event('info', `${count}`)
    assert.deepEqual(stream.writes, [])
    await turn()
    assert.equal(stream.writes.length, 1)
    assert.equal(stream.text.split('\n').length, 101)

    log.event('info', 'of the next turn')
    await turn()
    assert.equal(stream.writes.length, 2)
    await turn()
    assert.equal(stream.writes.length, 2)
  })

  test('carry the time at which they were added', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    log.event('info', 'first')
    log.event('info', 'second')
    t.mock.timers.tick(1)
    log.event('info', 'third')
    await turn()
    const third = TIME.replace('789', '790')
    assert.equal(stream.text, `${TIME} info: first\n${TIME} info: second\n${third} info: third\n`)
  })

  test('are all out when the log is flushed, and none twice', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    log.event('info', 'once')
    await log.flush()
    await turn()
    assert.equal(stream.text, `${TIME} info: once\n`)
  })

  test('are waited for by a flush until the stream has taken them', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    const taken: (() => void)[] = []
    t.mock.method(stream, 'write', (_text: string, done: () => void) => void taken.push(done))
    let flushed = false
    log.event('info', 'slowly')
    const flush = log.flush().then(() => {
      flushed = true
    })
    await turn()
    assert.equal(flushed, false)
    for (const done of taken) done()
    await flush
  })

  test('wait for a slow reader up to 16 MiB; those beyond are dropped, and counted once there is room', async (t) => {
    const { log, stream } = createFixture(t, 'text')
    stream.writableLength = MAX_WAITING_BYTES
    log.event('info', 'still kept')
    await turn()
    assert.equal(stream.text, `${TIME} info: still kept\n`)

    stream.writableLength = MAX_WAITING_BYTES + 1
    for (let count = 0; count < 3; count++) {
      log.event('info', 'dropped')
      log.request(outcomeOf(ENTRY))
      await turn()
    }
    assert.equal(stream.text, `${TIME} info: still kept\n`)

    stream.writableLength = 0
    log.event('info', 'kept again')
    await turn()
    log.event('info', 'and counted once')
    await turn()
    assert.equal(
      stream.text,
      [
        `${TIME} info: still kept`,
        `${TIME} info: kept again`,
        `${TIME} warn: 6 lines were dropped: the log's reader is too slow`,
        `${TIME} info: and counted once\n`,
      ].join('\n'),
    )
  })

  for (const format of ['json', 'text'] as const) {
    test(`end where the stream is broken, and a flush waits for nothing (${format})`, async (t) => {
      const { log, stream } = createFixture(t, format)
      log.event('info', 'before')
      await turn()
      const before = stream.text
      stream.emit('error', new Error('EPIPE'))
      log.event('info', 'after')
      log.request(outcomeOf(ENTRY))
      await turn()
      await log.flush()
      assert.equal(stream.text, before)
      assert.equal(log.on, true)
    })
  }
})
