// JSON with exact integers, as clients send and get it.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test, type TestContext } from 'node:test'
import { send, start } from '../support.ts'

const LONG = '9007199254740993'
const ZEROS = '0'.repeat(60_000)

/** Starts a petstore, and returns what adds a pet by the text of a body, on one connection. */
async function adding(t: TestContext): Promise<(body: string) => Promise<string>> {
  const petstore = await start(t)
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  return async (body) => {
    const answer = await send(petstore, 'POST', '/v1/pets', { agent, body })
    if (answer.status !== 201) return `${answer.status} ${JSON.parse(answer.body).code}`
    const read = await send(petstore, 'GET', String(answer.headers.location), { agent })
    assert.equal(read.body, answer.body)
    return answer.body.replace(/^\{"id":\d+,/, '{')
  }
}

/** Numbers as they may be sent, by how they come back; undefined if they are refused. */
const NUMBERS: [categoryId: string | undefined, sources: string][] = [
  ['9007199254740991', '9007199254740991 9007199254740991.0 9007199254740991e0'],
  ['-9007199254740991', '-9007199254740991 -90071992547409910e-1'],
  ['9007199254740992', '9007199254740992'],
  [LONG, LONG],
  [`-${LONG}`, `-${LONG}`],
  ['1234567890123456', '1234567890123456'],
  ['9223372036854775807', '9223372036854775807'],
  ['-9223372036854775808', '-9223372036854775808'],
  ['1', `1 1.0 1.000000000000000000000000 1e0 1e+0 10E-1 1.${ZEROS} 1${ZEROS}e-60000`],
  ['-1', '-1 -1.0 -0.1e1'],
  ['1000000000000000', '1e15 1E+15'],
  ['0', '0 -0 0.0 -0.0 0e-5 0e999999999999999999999'],
  // With a fraction or an exponent, and beyond ±(2^53-1).
  [undefined, '9007199254740992.0 9007199254740992e0 -9007199254740992.0 1e16 1e400 -1e400'],
  // Beyond an int64.
  [undefined, `9223372036854775807.0 9223372036854775808 -9223372036854775809 1${ZEROS}`],
  // Not integral.
  [undefined, '1.5 -0.5 1.05e1 1e-1 4503599627370495.5'],
]

test('a categoryId comes back exactly as it was sent, or is refused', async (t) => {
  const add = await adding(t)
  for (const [categoryId, sources] of NUMBERS) {
    const expected = categoryId ? `{"name":"Rex","categoryId":${categoryId}}` : '400 invalid_pet'
    for (const source of sources.split(' ')) {
      const body = await add(`{"name":"Rex","categoryId":${source}}`)
      assert.equal(body, expected, source.slice(0, 100))
    }
  }
})

test('digits within strings stay strings, next to exact integers', async (t) => {
  const add = await adding(t)
  for (const name of [
    ...[LONG, `-${LONG}`, '1.50', '"', '\\', `\\"${LONG}\\"`, `",${LONG},"`, `${LONG}\\`],
    ...[`{"a":${LONG},"b":"\\"${LONG}"}`, `${LONG} "${LONG}" ${LONG}`, `\n${LONG}\t\0\ud800`],
  ]) {
    const json = JSON.stringify(name)
    const expected = `{"name":${json},"categoryId":${LONG}}`
    assert.equal(await add(expected), expected)
    const others = `${json}:${json},"__proto__":${LONG},"x":[${LONG},1.5,{"y":${LONG}}]`
    assert.equal(await add(`{${others},"categoryId":${LONG},"name":${json}}`), expected)
  }
})

test('any text that is no JSON is refused', async (t) => {
  const add = await adding(t)
  const pet = `{"name":"\\"Rex\\"","categoryId":${LONG}}`
  for (let at = 0; at < pet.length; at++)
    assert.equal(await add(pet.slice(0, at)), '400 bad_request')
  for (const text of [
    ...[`[${pet}]`, LONG, `${pet}${LONG}`, `${pet},`, pet.replace(LONG, `0${LONG}`)],
    ...[
      pet.replace(LONG, `+${LONG}`),
      pet.replace(LONG, `${LONG}.`),
      pet.replace(LONG, `.${LONG}`),
    ],
    ...[pet.replace(LONG, `--${LONG}`), pet.replace(LONG, `${LONG}n`), pet.replace(':', LONG)],
  ]) {
    assert.match(await add(text), /^400 /, text)
  }
})

test('the largest bodies are read or refused, whatever they consist of', async (t) => {
  const add = await adding(t)
  for (const unit of ['"', '\\', '\\"', '"\\', '1', '-', '1234567890123456,', '{"":', '[', ' ']) {
    const text = unit.repeat(Math.floor(64_000 / unit.length))
    for (const body of [text, `{"name":"${text}`, `{"name":"Rex","categoryId":1${text}`]) {
      assert.match(await add(body), /^400 /)
    }
  }
  const many = `{"name":"Rex","x":[${'7,'.repeat(20_000)}${LONG}],"categoryId":${LONG}}`
  assert.equal(await add(many), `{"name":"Rex","categoryId":${LONG}}`)
  const deep = `{"name":"Rex","x":${'['.repeat(1_000)}${LONG}${']'.repeat(1_000)},"categoryId":1}`
  assert.equal(await add(deep), '{"name":"Rex","categoryId":1}')
  const deeper = `{"name":"Rex","x":${'['.repeat(30_000)}${LONG}${']'.repeat(30_000)},"categoryId":1}`
  assert.match(await add(deeper), /^400 bad_request|^\{"name":"Rex"/)
})
