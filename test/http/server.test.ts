// How the server reads requests and writes answers on a connection, byte by byte.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Random, RawConnection, send, start } from '../support.ts'
import { assertLastError, BEARER, chunk, CHUNKED, get, HOST, post, postChunked, postHead, request, REX } from './raw.ts'

const TWO_PETS = [
  { name: 'Rex', categoryId: 1 },
  { name: 'Tom', categoryId: 2 },
]

describe('one connection', () => {
  test('carries 1,000 requests, one after the other', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    for (let id = 1; id <= 500; id++) {
      await connection.write(post())
      assert.equal((await connection.read()).status, 201)
      await connection.write(get(`/v1/pets/${id}`))
      const { status, headers, body } = await connection.read()
      assert.equal(status, 200)
      assert.equal(headers.connection, 'keep-alive')
      assert.equal(body, `{"id":${id},"name":"Rex","categoryId":1}`)
    }
  })

  test('answers 1,000 pipelined requests in their order', async (t) => {
    const petstore = await start(t, { pets: Array.from({ length: 1_000 }, () => ({ name: 'Rex', categoryId: 1 })) })
    const connection = new RawConnection(t, petstore)
    await connection.write(Array.from({ length: 1_000 }, (_, at) => get(`/v1/pets/${1_000 - at}`)).join(''))
    for (let id = 1_000; id > 0; id--) {
      assert.equal((await connection.read()).body, `{"id":${id},"name":"Rex","categoryId":1}`)
    }
  })

  test('gives a pipelined request what the ones before it have changed', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await connection.write(get() + post() + get() + postChunked(`${chunk(REX)}0\r\n\r\n`) + get('/v1/pets?after=1'))
    const bodies = []
    for (let count = 0; count < 5; count++) bodies.push((await connection.read()).body)
    const [first, second] = ['{"id":1,"name":"Rex","categoryId":1}', '{"id":2,"name":"Rex","categoryId":1}']
    assert.deepEqual(bodies, ['[]', first, `[${first}]`, second, `[${second}]`])
  })

  test('gives the same answers wherever the bytes are cut', async (t) => {
    const seed = Date.now() % 2 ** 31
    t.diagnostic(`seed ${seed}`)
    const random = new Random(seed)
    const petstore = await start(t, { pets: TWO_PETS })
    const broken = post('{"name":"né"}')
    const requests = [
      get(),
      get('/v1/pets/2'),
      get('/nowhere'),
      broken,
      postChunked(`1\r\n{\r\n2;a=b\r\n}}\r\n0\r\n\r\n`),
    ]
    const bytes = Buffer.from(requests.join(''))
    for (let round = 0; round < 20; round++) {
      const connection = new RawConnection(t, petstore)
      connection.socket.setNoDelay(true)
      for (let at = 0; at < bytes.length;) {
        // The first round sends a byte at a time.
        const end = at + (round === 0 ? 1 : random.integer(1, 200))
        await connection.write(bytes.subarray(at, end))
        await setImmediate()
        at = end
      }
      const statuses = []
      for (let count = 0; count < requests.length; count++) statuses.push((await connection.read()).status)
      assert.deepEqual(statuses, [200, 200, 404, 400, 400])
      connection.socket.destroy()
    }
  })

  test('sends the head of the same GET to a HEAD, and no body', async (t) => {
    const petstore = await start(t, { pets: TWO_PETS })
    for (const target of ['/v1/pets?limit=1', '/v1/pets/1', '/v1/pets/9', '/v1/pets?limit=0', '/']) {
      const connection = new RawConnection(t, petstore)
      await connection.write(request(`HEAD ${target} HTTP/1.1`, [HOST, BEARER]) + get(target))
      const [head, whole] = [await connection.read(true), await connection.read()]
      assert.equal(head.status, whole.status)
      assert.deepEqual({ ...head.headers, date: '' }, { ...whole.headers, date: '' })
      assert.equal(whole.headers['content-length'], String(Buffer.byteLength(whole.body)))
    }
  })

  const closing: [name: string, bytes: string, status: number][] = [
    ['a GET', get('/v1/pets', 'Connection: close'), 200],
    ['a POST', post('{}', 'Connection: close'), 400],
    ['HTTP/1.0', request('GET /v1/pets HTTP/1.0', [BEARER]), 200],
  ]
  for (const [name, bytes, status] of closing) {
    test(`is closed after the answer where ${name} asks for it, and nothing behind is processed`, async (t) => {
      const petstore = await start(t)
      const connection = new RawConnection(t, petstore)
      await connection.write(bytes + post())
      const answer = await connection.read()
      assert.equal(answer.status, status)
      assert.equal(answer.headers.connection, 'close')
      assert.equal(await connection.rest(), '')
      assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
    })
  }

  test('still brings all answers to a client that has ended its side', async (t) => {
    const petstore = await start(t, { pets: TWO_PETS })
    const connection = new RawConnection(t, petstore)
    connection.socket.end(get('/v1/pets/1') + post() + get('/v1/pets/3'))
    assert.equal((await connection.read()).body, '{"id":1,"name":"Rex","categoryId":1}')
    assert.equal((await connection.read()).status, 201)
    assert.equal((await connection.read()).body, '{"id":3,"name":"Rex","categoryId":1}')
    assert.equal(await connection.rest(), '')
  })
})

describe('a request', () => {
  const targets: [target: string, status: number][] = [
    ['http://pets.example/v1/pets', 200],
    ['http://pets.example/v1/pets?limit=1', 200],
    ['http://pets.example/v1/pets?limit=0', 400],
    ['http://pets.example:8080/v1/p%65ts', 200],
    ['HTTPS://[::1]:1/v1/pets', 200],
    ['http://pets.example', 200],
    ['http://pets.example?limit=0', 200],
    ['http://pets.example/nowhere', 404],
    ['ftp://pets.example/v1/pets', 400],
    ['*', 400],
  ]
  for (const [target, status] of targets) {
    test(`for GET ${target} is answered ${status}, and its connection kept`, async (t) => {
      const connection = new RawConnection(t, await start(t, { pets: TWO_PETS }))
      await connection.write(get(target) + get())
      const answer = await connection.read()
      assert.equal(answer.status, status)
      assert.equal('link' in answer.headers, target.endsWith('limit=1'))
      assert.equal((await connection.read()).status, 200)
    })
  }

  test('for OPTIONS * is answered 204 with every method, and neither length nor type', async (t) => {
    const connection = new RawConnection(t, await start(t))
    await connection.write(request('OPTIONS * HTTP/1.1', [HOST]) + get())
    const { status, headers } = await connection.read()
    assert.equal(status, 204)
    assert.equal(headers.allow, 'GET, HEAD, OPTIONS, POST')
    for (const name of ['content-length', 'content-type', 'transfer-encoding']) assert.ok(!(name in headers), name)
    assert.equal((await connection.read()).body, '[]')
  })

  test('in HTTP/1.0 needs no Host, and its connection is closed unless it asks to keep it', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await connection.write(request('GET /v1/pets HTTP/1.0', [BEARER, 'Connection: keep-alive']))
    assert.equal((await connection.read()).headers.connection, 'keep-alive')
    // HTTP/1.0 knows no 100-continue either.
    const fields = [BEARER, `Content-Length: ${REX.length}`, 'Expect: 100-continue']
    await connection.write(request('POST /v1/pets HTTP/1.0', fields, REX))
    const answer = await connection.read()
    assert.equal(answer.status, 201)
    assert.equal(answer.headers.connection, 'close')
    assert.equal(await connection.rest(), '')
  })

  test('with an Upgrade is answered as if it had none', async (t) => {
    const connection = new RawConnection(t, await start(t))
    const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA']
    await connection.write(get('/v1/pets', ...upgrade))
    assert.equal((await connection.read()).body, '[]')
    await connection.write(postHead(REX.length, ...upgrade))
    await connection.write(REX)
    assert.equal((await connection.read()).status, 201)
    await connection.write(get())
    assert.equal((await connection.read()).body, '[{"id":1,"name":"Rex","categoryId":1}]')
  })

  test('keeps all its field lines, be they thousands', async (t) => {
    const connection = new RawConnection(t, await start(t))
    const small = Array.from({ length: 2_500 }, () => 'a:1')
    await connection.write(request('GET /v1/pets HTTP/1.1', [HOST, ...small, BEARER, 'X-Request-Id: last']))
    const answer = await connection.read()
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['x-request-id'], 'last')
  })

  test('may have 16 KiB of request line and header section', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    const padded = get('/v1/pets', `X: ${'x'.repeat(16_384 - get('/v1/pets', 'X: ').length)}`)
    assert.equal(padded.length, 16_384)
    await connection.write(padded)
    assert.equal((await connection.read()).status, 200)
    await connection.write(get('/v1/pets', `X: ${'x'.repeat(16_384)}`))
    await assertLastError(connection, 431, 'headers_too_large')
  })

  const ids: [id: string, valid: boolean][] = [
    ['a', true],
    ['A-Z_a.z-0', true],
    ['x'.repeat(128), true],
    ['x'.repeat(129), false],
    ['', false],
    ['a b', false],
    ['a/b', false],
    ['\xe9', false],
  ]
  for (const [id, valid] of ids) {
    const shown = id.length < 20 ? JSON.stringify(id) : `of ${id.length} characters`
    test(`has its X-Request-Id ${shown} ${valid ? 'sent back' : 'ignored'}`, async (t) => {
      const connection = new RawConnection(t, await start(t))
      for (const target of ['/v1/pets', '/nowhere']) {
        await connection.write(Buffer.from(get(target, `X-Request-Id: ${id}`), 'latin1'))
        assert.equal((await connection.read()).headers['x-request-id'], valid ? id : undefined)
      }
    })
  }
})

describe('a body', () => {
  const padded = (length: number) => REX.padEnd(length, ' ')
  const halves = (body: string) => chunk(body.slice(0, 50)) + chunk(body.slice(50))
  const framings: [name: string, frame: (body: string) => string][] = [
    ['Content-Length', (body) => post(body)],
    ['chunks', (body) => postChunked(`${halves(body)}0\r\n\r\n`)],
    [
      'chunks with extensions and trailers',
      (body) => postChunked(`${halves(body).replace('\r', ';a="b"\r')}0\r\nX: y\r\n\r\n`),
    ],
  ]
  for (const [name, frame] of framings) {
    for (const [length, status] of [
      [99, 201],
      [100, 201],
      [101, 413],
    ] as const) {
      test(`by ${name} of ${length} bytes, of 100 allowed, is answered ${status}`, async (t) => {
        const connection = new RawConnection(t, await start(t, { maxBody: 100 }))
        await connection.write(frame(padded(length)) + get())
        assert.equal((await connection.read()).status, status)
        assert.equal((await connection.read()).status, 200)
      })
    }
  }

  test('of a GET is read and ignored', async (t) => {
    const connection = new RawConnection(t, await start(t))
    await connection.write(
      get('/v1/pets', `Content-Length: ${REX.length}`) + REX + get('/v1/pets', CHUNKED) + '0\r\n\r\n',
    )
    assert.equal((await connection.read()).body, '[]')
    assert.equal((await connection.read()).body, '[]')
  })
})
