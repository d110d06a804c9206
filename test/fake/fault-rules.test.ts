// What a fault must be: inject() and the test controls refuse it with the same words.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson } from '../../src/pets/json.ts'
import { send, start } from '../support.ts'

type Row = readonly [error: 'TypeError' | 'RangeError', message: string, faults: readonly string[]]

const BASE = '"operation":"getPet","status":503'
const KNOWN = 'operation, after, times, delay, status, code, message, body, headers, hangUp, done'
const HANG_UP = 'true or false, or one of reset, halfway, stalled'
const RESERVED = ['Connection', 'content-length', 'KEEP-ALIVE', 'Trailer', 'Upgrade', 'TE', 'Date']
  .concat('Transfer-Encoding', 'Proxy-Connection', 'Cache-Control', 'X-Content-Type-Options')
  .concat('Access-Control-Allow-Origin', 'Vary', 'X-Request-Id')

/** Rows for a member that is an integer; `%` stands for its wrong value. */
function integer(member: string, low: number, high: number, more = ''): Row[] {
  const mustBe = `${member} % must be an integer from ${low} to ${high}${more}`
  const base = member === 'status' ? '"operation":"getPet"' : BASE
  const withValues = (...values: string[]) => values.map((one) => `{${base},"${member}":${one}}`)
  const outside = withValues(`${low - 1}`, `${high + 1}`, `${low}.5`, '1e400')
  return [
    ['RangeError', mustBe, outside],
    ['TypeError', mustBe, withValues('true', 'null', '[1]', '"1"', '9007199254740993')],
  ]
}

const ROWS: readonly Row[] = [
  ['TypeError', 'fault must be an object', ['null', '[]', '"a-secret-key"', '503']],
  [
    'TypeError',
    `fault must not have %; known are ${KNOWN}`,
    [`{${BASE},"petId":1}`, `{${BASE},"__proto__":{}}`, `{${BASE},"Status":1}`],
  ],
  [
    'TypeError',
    'operation is required and must be one of listPets, createPet, getPet, *',
    ['{}', '{"status":500}'],
  ],
  [
    'TypeError',
    'operation % must be one of listPets, createPet, getPet, *',
    [
      '{"operation":1,"status":500}',
      '{"operation":null,"status":500}',
      '{"operation":["getPet"],"status":500}',
    ],
  ],
  [
    'RangeError',
    'operation % must be one of listPets, createPet, getPet, *',
    [
      '{"operation":"listOrders","status":500}',
      '{"operation":"","status":500}',
      '{"operation":"GetPet","status":500}',
    ],
  ],
  [
    'TypeError',
    'a fault must have a delay, a status or hangUp',
    [
      '{"operation":"*"}',
      '{"operation":"*","hangUp":false,"done":true}',
      '{"operation":"*","body":""}',
    ],
  ],
  ...integer('after', 0, 1_000_000),
  ...integer('times', 1, 1_000_000, ', or always'),
  [
    'RangeError',
    'times % must be an integer from 1 to 1000000, or always',
    [`{${BASE},"times":0}`],
  ],
  [
    'TypeError',
    'times % must be an integer from 1 to 1000000, or always',
    [`{${BASE},"times":"Always"}`],
  ],
  ...integer('delay', 0, 600_000, ' ms'),
  ...integer('status', 200, 599),
  ...['code', 'message', 'body'].flatMap((member): Row[] => [
    [
      'TypeError',
      `${member} % must be a string`,
      [`{${BASE},"${member}":5}`, `{${BASE},"${member}":null}`],
    ],
    [
      'TypeError',
      `${member} must go with a status`,
      [
        `{"operation":"*","delay":1,"${member}":""}`,
        `{"operation":"*","hangUp":"halfway","${member}":""}`,
      ],
    ],
  ]),
  ['TypeError', 'headers must go with a status', ['{"operation":"*","delay":1,"headers":{}}']],
  [
    'TypeError',
    'headers % must be an object of strings',
    [`{${BASE},"headers":"x: y"}`, `{${BASE},"headers":[["x","y"]]}`, `{${BASE},"headers":null}`],
  ],
  ['TypeError', 'header x % must be a string', [`{${BASE},"headers":{"a":"","x":1}}`]],
  ...RESERVED.map((name): Row => {
    const given = `{${BASE},"headers":{"a":"","${name}":"1"}}`
    return ['TypeError', `headers must not have ${name}: the server sends it`, [given]]
  }),
  [
    'TypeError',
    'headers must be those of HTTP: %',
    [
      `{${BASE},"headers":{"":"y"}}`,
      `{${BASE},"headers":{"x y":"y"}}`,
      `{${BASE},"headers":{"ü":"y"}}`,
      `{${BASE},"headers":{"x":"a\\r\\nb: c"}}`,
      `{${BASE},"headers":{"x":"\\u0000"}}`,
      `{${BASE},"headers":{"x":"€"}}`,
    ],
  ],
  [
    'TypeError',
    `hangUp % must be ${HANG_UP}`,
    [
      '{"operation":"*","hangUp":1}',
      '{"operation":"*","hangUp":null}',
      '{"operation":"*","hangUp":["reset"]}',
    ],
  ],
  [
    'RangeError',
    `hangUp % must be ${HANG_UP}`,
    ['{"operation":"*","hangUp":"true"}', '{"operation":"*","hangUp":""}'],
  ],
  [
    'TypeError',
    'hangUp % must go without a status: there is no response',
    [`{${BASE},"hangUp":true}`, `{${BASE},"hangUp":"reset"}`],
  ],
  [
    'TypeError',
    'done % must be true or false',
    [`{${BASE},"done":"yes"}`, `{${BASE},"done":null}`],
  ],
]

const ACCEPTED = [
  '{"operation":"*","delay":0}',
  '{"operation":"listPets","delay":600000,"hangUp":false}',
  '{"operation":"createPet","status":200,"after":0,"times":1}',
  '{"operation":"getPet","status":599,"after":1000000,"times":1000000,"done":false}',
  '{"operation":"*","status":503,"times":"always","code":"","message":"","body":"","headers":{}}',
  '{"operation":"*","status":503,"headers":{"x":"\x80\xff","CONTENT-TYPE":"a/b","x-":""}}',
  '{"operation":"*","hangUp":"stalled","status":503,"done":true}',
]

function parsed(fault: string): unknown {
  const result = parseJson(fault)
  return result.ok ? result.value : assert.fail(result.reason)
}

test('what may be no fault is refused by name, through both doors; what may is not', async (t) => {
  const petstore = await start(t, { controlPort: 0 })
  const controls = { url: String(petstore.controlUrl) }
  const inject = (fault: unknown) => Reflect.apply(petstore.inject, undefined, [fault])
  for (const [name, message, faults] of ROWS) {
    const [start = '', end = ''] = message.split('%')
    for (const fault of faults) {
      let shown = ''
      assert.throws(
        () => inject(parsed(fault)),
        (error) => {
          assert.ok(error instanceof Error && 'code' in error, fault)
          assert.deepEqual([error.name, error.code], [name, 'invalid_option'], fault)
          assert.ok(error.message.startsWith(start) && error.message.endsWith(end), error.message)
          assert.ok(message.includes('%') || error.message === message, error.message)
          shown = error.message
          return true
        },
      )
      const { status, body } = await send(controls, 'POST', '/faults', { body: fault })
      assert.equal(status, 400, fault)
      assert.deepEqual(JSON.parse(body), { code: 'bad_request', message: shown, status: 400 })
    }
  }
  assert.deepEqual(petstore.pendingFaults, [])
  for (const fault of ACCEPTED) {
    inject(parsed(fault))
    const { status, body } = await send(controls, 'POST', '/faults', { body: fault })
    assert.deepEqual([status, JSON.parse(body)], [201, petstore.pendingFaults.at(-1)])
    for (const one of petstore.pendingFaults.slice(-2))
      assert.deepEqual(one, { times: 1, ...JSON.parse(fault), hits: 0 })
  }
})

test('what only JavaScript has is refused, too', async (t) => {
  const { inject } = await start(t)
  const fault = { operation: 'getPet', status: 503 }
  for (const wrong of [
    undefined,
    () => {},
    { ...fault, status: 503n },
    { ...fault, times: Infinity },
    { ...fault, delay: Number.NaN },
    { ...fault, headers: new Headers({ a: 'b' }) },
    { ...fault, headers: new Map([['a', 'b']]) },
    { ...fault, headers: { a: undefined } },
    { ...fault, hangUp: Symbol('reset') },
  ]) {
    assert.throws(() => Reflect.apply(inject, undefined, [wrong]), { code: 'invalid_option' })
  }
})
