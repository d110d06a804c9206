import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Fault, StartOptions } from '../../src/types.ts'
import { DEMO_PETS } from '../demo.ts'
import { exec } from '../documents.ts'
import { KEY, send, start } from '../support.ts'
import { does, KEYBOARD, launch, MOUSE, type Page, type Seen, shows, type Step } from './browser.ts'
import { isHere } from './packages.ts'

const MAX_INT64 = '9223372036854775807'
const [LIST, ADD] = ['section:has(#list)', 'section:has(#added)']
const NAMES = [
  '<img src=x onerror=alert(1)>',
  '</script><script>alert(1)</script><b>',
  `it's "$HOME" \`id\` \\ !! %s -n`,
  'gpj.\u202exe\u2066 \u05e9\u05dc\u05d5\u05dd\u200f a\u0301 \u{1f436}',
  '@/etc/passwd',
  ' ',
  '',
]
const LOOKS = [360, 1280].flatMap((width) => [[width, 'light'] as const, [width, 'dark'] as const])

const press = (selector: string, seen: Seen = {}): Step => ['press', selector, '', seen]
const type = (selector: string, text: string, seen: Seen = {}): Step => {
  return ['type', selector, text, seen]
}
const filter = (status: string, seen: Seen): Step => ['choose', '[name=filter]', status, seen]
const giveKey = (seen: Seen, key = KEY) => [type('#key', key), press('#key-form .primary', seen)]
const fillIn = (name: string, categoryId: string) => {
  return [type('#name', name), type('#categoryId', categoryId)]
}
const add = (name: string, categoryId: string, seen: Seen) => {
  return [...fillIn(name, categoryId), press(`${ADD} .primary`, seen)]
}
const fetchOne = (id: string, seen: Seen) => [type('#petId', id), press('#fetch .primary', seen)]
const refresh = (seen: Seen) => press('#filter button', seen)
const copy = (section: string) => {
  const button = `${section} .console button`
  return press(button, { [button]: 'Copied' })
}
const WRONG = 'The API key is not valid here'
const LOST = 'No complete response came. The server may have stopped'
const NO_KEY = 'Enter a key'

/** Everything that the page offers, from a wrong key on. */
const TOUR: Step[] = [
  ...giveKey({ '#count': /^12 pets$/, '#key-problem:empty': '' }),
  filter('sold', { '#count': /^3 /, '#list': /2.*6.*8/s, [`${LIST} .curl`]: '&status=sold' }),
  filter('', { '#count': /^12 /, [`${LIST} .curl`]: '?limit=20' }),
  ['pick', '#limit', '5', { '#count': /^Page 1: 5 pets$/, '#previous[aria-disabled=true]': '' }],
  press('#next', {
    '#count': /^Page 2: 5 pets$/,
    [`${LIST} dl`]: '</v1/pets?limit=5&after=10>; rel="next"',
  }),
  press('#next', {
    '#count': /^Page 3, the last: 2 pets$/,
    '#list td:first-child': '11',
    '#next[aria-disabled=true]': '',
  }),
  press('#previous', { '#count': 'Page 2:', '#list td:first-child': '6' }),
  press('#previous', { '#count': 'Page 1:', '#previous[aria-disabled=true]': '' }),
  press('#next', { '#count': 'Page 2:' }),
  press('#first', { '#count': 'Page 1:' }),
  ...add('Rex', 'seven', {
    '#categoryId-problem': /^categoryId must be an integer$/,
    '#categoryId:focus': '',
    [`${ADD} .console`]: '400 Bad Request',
  }),
  ['choose', '[name=status]', 'pending', { [`${ADD} .outcome`]: 'Not sent yet' }],
  ...add('Rex', MAX_INT64, {
    '#added': 'Added with the id 13: Rex',
    '#categoryId-problem:empty': '',
    [`${ADD} pre.curl`]: `-d '{"name":"Rex","categoryId":${MAX_INT64},"status":"pending"}'`,
    '[name=status][value=""]:checked': '',
    [`${ADD} dl`]: 'Location: /v1/pets/13',
    '#count': /^Page 2, the last: 1 pet$/,
    '#list td:first-child': '13',
  }),
  ...fetchOne('13', {
    '#fetched td:nth-child(3)': MAX_INT64,
    '#fetch .note':
      'Deprecated since 20 November 2026. It will be removed on 5 December 2030. Use GET /v1/pets',
    '#fetch dl': 'Sunset: Thu, 05 Dec 2030 00:00:00 GMT',
    '#fetch pre': `"categoryId": ${MAX_INT64}`,
  }),
  ...fetchOne('..', { '#fetched': 'No pet has this id' }),
  ...fetchOne(MAX_INT64, { '#fetched': 'No pet has this id' }),
  copy('#fetch'),
  press('#reveal', { '#fetch .curl': `'Authorization: Bearer ${KEY}'` }),
  press('details:nth-of-type(2) summary', {
    'details[open] .codes': 'invalid_pet',
    'details[open] table:has(th:text("Body of the response"))': /id.*name.*categoryId.*status/s,
    'details[open] pre': '"categoryId": 7',
  }),
  press('#forget', { '#list': NO_KEY }),
]

const runCommand = async (command: string): Promise<string> => {
  const env = { ...process.env, KEY }
  return (await exec('sh', ['-c', `${command} -sS --fail`], { env })).stdout
}
const clipboardOf = (page: Page) => page.evaluate<string>('navigator.clipboard.readText()')

const skip = !isHere('chromium') && 'there is no chromium, and none can be installed'
test('in Chromium', { skip }, async (t) => {
  const chromium = await launch(t)

  async function open(t: TestContext, options: StartOptions = {}, look: object = {}) {
    const petstore = await start(t, { pets: DEMO_PETS, ...options })
    const page = await chromium.open(t, new URL(petstore.url).origin, look)
    await shows(page, { '#list': NO_KEY })
    const use = (...steps: Step[]) => does(page, MOUSE, ...steps)
    return { petstore, page, use }
  }

  for (const [name, hand] of Object.entries({ mouse: MOUSE, keyboard: KEYBOARD })) {
    await t.test(`the ${name} does everything that the page offers`, async (t) => {
      const { page } = await open(t)
      const stored = () => page.evaluate('sessionStorage.length')
      assert.equal(await page.locator('#key').inputValue(), '')
      const wrong = giveKey({ '#key-problem': WRONG, '#list': WRONG }, 'key-that-is-wrong')
      await does(page, hand, ...wrong)
      assert.equal(await stored(), 0)
      await does(page, hand, ...TOUR)
      assert.equal(await stored(), 0)
      const command = await clipboardOf(page)
      assert.ok(command.includes(`/v1/pets/${MAX_INT64}'`) && !command.includes(KEY), command)
    })
  }

  await t.test('the key stays in its tab, and no address or lasting storage has it', async (t) => {
    const { page, petstore, use } = await open(t)
    const sent: [url: string, authorization: string | undefined][] = []
    page.on('request', (request) => sent.push([request.url(), request.headers()['authorization']]))
    await page.goto(`${page.url()}#key=${KEY}`)
    await shows(page, { '#count': /^12 / })
    assert.equal(page.url(), `${new URL(petstore.url).origin}/`)
    await page.reload()
    await shows(page, {
      '#count': /^12 /,
      '#key[placeholder*="••••"]': '',
      '#key-state': 'Your key is kept until you close this tab',
    })
    assert.equal(await page.locator('#key').inputValue(), '')
    await page.goto('about:blank')
    await page.goto(`${new URL(petstore.url).origin}/#key=${KEY}`)
    await shows(page, { '#count': /^12 / })
    assert.equal(await page.evaluate('JSON.stringify(localStorage) + document.cookie'), '{}')
    const isApi = (url: string) => url.startsWith(`${petstore.url}/pets`)
    for (const [url, key] of sent) assert.equal(key, isApi(url) ? `Bearer ${KEY}` : undefined, url)
    assert.equal(sent.filter(([url]) => isApi(url)).length, 3)
    for (const url of [page.url(), ...sent.map(([url]) => url)]) assert.ok(!url.includes(KEY))
    await use(...fetchOne('1', { '#fetched': 'Rex' }))
    petstore.replaceKeys(['another-key'])
    const refused = { '#key-problem': WRONG, '#list': WRONG, '#key[placeholder=""]': '' }
    await use(refresh({ ...refused, '#fetched:empty': '', '#fetch .outcome': 'Not sent yet' }))
    await shows(page, { [`${LIST} .outcome`]: '401' })
    await page.goto(`${page.url()}#key=two%20words`)
    await shows(page, { '#key-problem': 'A-Z a-z 0-9', '#list': NO_KEY })
  })

  await t.test('where any key is valid, each tab has a key of its own', async (t) => {
    const { url } = await start(t, { apiKeys: undefined, storePerKey: true, pets: DEMO_PETS })
    const open = () => chromium.open(t, new URL(url).origin)
    const [first, second] = [await open(), await open()]
    const madeUp = { '#key-state code': /^([bfhkmqrswy][2-9]){5}$/ } // which can be dictated
    for (const page of [first, second]) await shows(page, { '#count': /^12 /, ...madeUp })
    await does(first, MOUSE, ...add('Tom', '7', { '#count': /^13 / }))
    for (const page of [first, second]) await page.reload()
    await shows(first, { '#count': /^13 / })
    await shows(second, { '#count': /^12 / })
    const say = { '#key-state': 'Another key is another store' }
    const ofAda = { '#key-state code': /^ada-lovelace-1$/, ...say }
    const ada = giveKey({ '#count': /^12 /, ...ofAda }, 'ada-lovelace-1')
    await does(first, MOUSE, ...ada, ...add('Tom', '7', { '#count': /^13 / }))
    await second.goto(`${second.url()}?KEY=ada-lovelace-1#add`)
    await shows(second, { '#count': /^13 / })
    assert.equal(second.url(), new URL('/', url).href)
    await does(second, MOUSE, ...add('Rex', '7', { '#count': /^14 / }), ...fetchOne('1', {}))
    await shows(second, { '#fetched': 'Rex' })
    const seen = { '#key-problem': '8 to 256 characters', '#list': NO_KEY, '#count:empty': '' }
    const left = { '#added:empty': '', '#fetched:empty': '', '.console dl:empty': '' }
    await does(second, MOUSE, ...giveKey({ ...seen, ...left }, 'ada'))
    const shown = second.locator('.action :is(td, pre:not(.curl))', { hasText: /Tom|Rex/ })
    assert.equal(await shown.count(), 0)
    await chromium.check(second, 'refused')
    await does(second, MOUSE, press('#list button', { '#count': /^14 /, ...ofAda }))
    await second.goto(`${second.url()}#key=two%20words`) // not a store that nobody asked for
    await shows(second, { '#key-problem': 'A-Z a-z 0-9', '#list': NO_KEY })
    await second.reload() // the tab has the key that it had
    await shows(second, { '#count': /^14 / })
  })

  await t.test('on a phone a key is on one line, its buttons too, no line is cut', async (t) => {
    const { url } = await start(t, { apiKeys: undefined, storePerKey: true, pets: DEMO_PETS })
    const viewport = { width: 390, height: 844 }
    const page = await chromium.open(t, new URL(url).origin, { viewport })
    await page.goto(`${page.url()}#key=ada-lovelace-the-first-1`)
    await shows(page, { '#count': /^12 /, '#key-state code': /^ada-lovelace-the-first-1$/ })
    const linesOf = (selector: string) =>
      page.evaluate<number>(`(([element]) => element.getBoundingClientRect().height /
        parseFloat(getComputedStyle(element).lineHeight))($$('${selector}'))`)
    await page.evaluate('window.$$ = (selector) => document.querySelectorAll(selector)')
    assert.equal(Math.round((await linesOf('#key-state code')) * 10), 10)
    assert.equal(Math.round((await linesOf(`${LIST} pre:not(.curl)`)) * 10), 160)
    const tops = await page.evaluate<number[]>(
      `Array.from($$('#key-form button'), ({ offsetTop }) => offsetTop)`,
    )
    assert.deepEqual(tops, [tops[0], tops[0]])
  })

  await t.test('the commands of empty forms are valid requests', async (t) => {
    const { page, use } = await open(t)
    await shows(page, { [`${ADD} h3`]: 'Example request', [`${ADD} .export`]: 'export KEY=…' })
    for (const [section, expected] of [
      [ADD, '{"id":13,"name":"Rex","categoryId":7}'],
      ['#fetch', '{"id":1,"name":"Rex",'],
    ] as const) {
      await use(copy(section))
      const stdout = await runCommand(await clipboardOf(page))
      assert.ok(stdout.includes(expected), stdout)
    }
    const shown = { [`${ADD} h3`]: /^Request/, [`${ADD} .curl`]: '{"name":"Tom"}' }
    await use(type('#name', 'Tom', shown))
  })

  await t.test('a name is shown as text, and the copied command sends it as typed', async (t) => {
    const { page, petstore, use } = await open(t, { pets: [] })
    await use(...giveKey({ '#list': 'No pets yet' }))
    for (const [at, name] of NAMES.entries()) {
      const added = { '#added': `Added with the id ${2 * at + 1}:` }
      const asked = { '#name-problem': 'The name is empty', '#name:focus': '' }
      await use(...add(name, '-9223372036854775808', name === '' ? asked : added))
      if (name === '') await use(press(`${ADD} .primary`, added))
      await use(copy(ADD))
      const command = await clipboardOf(page)
      assert.doesNotMatch(command, /[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
      await runCommand(command)
    }
    const both = NAMES.flatMap((name) => [name, name])
    const { body } = await send(petstore, 'GET', '/v1/pets')
    const names = JSON.parse(body).map((pet: { name: string }) => pet.name)
    assert.deepEqual(names, both)
    assert.equal(body.split('"categoryId":-9223372036854775808').length - 1, both.length)
    await use(refresh({ '#count': new RegExp(`^${both.length} `) }))
    const shown = both.map((name) => name.trim() || (name === '' ? 'empty name' : 'blank name'))
    assert.deepEqual(await page.locator('#list td:nth-child(2)').allTextContents(), shown)
    assert.equal(await page.locator('main :is(img, script, b b)').count(), 0)
  })

  await t.test('a name of 10,000 characters is clipped, and all of it can be seen', async (t) => {
    const name = 'Ünïcödé '.repeat(1_250)
    const { page, use } = await open(t, { pets: [{ name, categoryId: 1 }] })
    await use(...giveKey({ '#list td button': 'Show all 10,000 characters' }))
    await use(press('#list td button', { '#list td .whole:focus': '' }))
    assert.equal(await page.locator('#list td bdi').textContent(), name)
    await chromium.check(page, 'whole name')
  })

  await t.test('while the server is lost the page says so and keeps what was typed', async (t) => {
    const { petstore, use } = await open(t)
    await use(...giveKey({ '#count': /^12 / }))
    await petstore.close()
    await use(
      refresh({ '#list': LOST }),
      ...add('Rex', '1', { '#added': LOST }),
      ...fetchOne('1', { '#fetched': LOST }),
    )
    await use(press('#list button', { [`${LIST} .console`]: 'No response' }))
    await start(t, { port: Number(new URL(petstore.url).port), pets: DEMO_PETS })
    await use(
      press('#list button', { '#count': /^12 /, '#list:focus': '' }),
      press(`${ADD} .primary`, { '#added': 'Added with the id 13: Rex' }),
      press('#fetch .primary', { '#fetched td': 'Rex' }),
    )
  })

  await t.test('a lost response leads to the list, which has the pet', async (t) => {
    const { page, petstore, use } = await open(t)
    await use(...giveKey({ '#count': /^12 / }), filter('sold', { '#count': /^3 / }))
    const faults = [{ body: 'cut' }, { body: 'garbled' }, { status: 504 }] as const
    for (const fault of faults) petstore.inject({ operation: 'createPet', done: true, ...fault })
    for (const outcome of [/^201 .*cut off$/, /^201 [^,]*$/, '504 Gateway Timeout']) {
      const seen = { '#added': 'The pet may have been added', [`${ADD} .outcome`]: outcome }
      await use(...add('Luna', '1', seen))
    }
    await shows(page, { '#count': /^15 /, '#list': 'Luna' })
    const keyless = { [`${ADD} .outcome`]: '401', [`${ADD} pre.curl`]: /^(?!.*Authorization)/s }
    await use(press('#forget', { '#list': NO_KEY }), ...add('Luna', '1', keyless))
  })

  await t.test('a click adds one pet, and shows it whatever the filter', async (t) => {
    const { page, petstore, use } = await open(t)
    await use(...giveKey({ '#count': /^12 / }))
    await use(filter('sold', { '#count': /^3 / }))
    petstore.inject({ operation: 'createPet', delay: 1_000 })
    await use(...fillIn('Rex', '1'))
    await page.evaluate(`for (let clicks = 0; clicks < 3; clicks++)
      document.querySelector('#add-form .primary').click()`)
    await shows(page, { '#list td:first-child': '13', '[name=filter][value=""]:checked': '' })
    assert.equal(petstore.pets.length, 13)
    await use(['pick', '#limit', '5', {}], press('#next', { '#count': 'Page 2' }))
    await petstore.reset([{ name: 'Rex', categoryId: 1 }])
    await use(refresh({ '#count': /^1 pet$/ }))
  })

  await t.test('the page tells of loading, failure, an empty filter and removal', async (t) => {
    const pets = [{ name: 'Rex', categoryId: 1 }]
    const { page, petstore, use } = await open(t, { pets, getPetState: 'gone' })
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    petstore.inject({ operation: 'listPets', status: 503 })
    await use(
      ...giveKey({ '#count': 'Loading', 'section:has(#list[aria-busy=true])': '' }),
      refresh({ '#list': 'cannot be shown' }),
      press('#list button', { '#count': /^1 pet$/ }),
      filter('sold', { '#list': 'No pet is sold' }),
      press('#list button', { '#count': /^1 pet$/ }),
    )
    petstore.clearFaults() // ends the first request, whose place others have taken
    const gone = { '#fetch .pill': 'Removed', '#fetch .note': 'This operation is removed' }
    await use(...fetchOne('1', gone))
    assert.deepEqual(await page.locator(`${LIST} dt`).allTextContents(), ['Content-Type: '])
    await chromium.check(page, 'gone')
  })

  await t.test('the reference has all that /openapi.json names, and its base path', async (t) => {
    const { page, petstore } = await open(t, { basePath: '/shop/v2' })
    const { body } = await send(petstore, 'GET', '/openapi.json')
    const { paths, components } = JSON.parse(body)
    const codes = [...body.matchAll(/"code":"(\w+)"/g)].map(([, code = '']) => code)
    const operations = Object.values<object>(paths).flatMap((item) => Object.values(item))
    const summaries = operations.flatMap((operation) => operation.summary ?? [])
    const parameters = Object.keys(components.parameters)
    assert.ok(parameters.length >= 4 && codes.length >= 15 && summaries.length >= 3)
    const text = await page.locator('#documents').textContent()
    for (const each of [...parameters, ...codes, ...summaries, 'GET /shop/v2/pets/{petId}'])
      assert.ok(text?.includes(each), `${each} is not in the reference`)
    assert.doesNotMatch(text ?? '', /imum -?\d{16}/, 'a bound that was rounded')
    const unspecified = page.locator('details:has(.pill:text("Not specified")) summary code')
    assert.deepEqual(await unspecified.allTextContents(), ['GET /shop/v2/store/orders'])
    const listed = await page.locator('#documents > table td > code').allTextContents()
    assert.deepEqual(listed.sort(), [...new Set(codes)].sort())
  })

  // test/fake/control-routes.test.ts shows that they refuse what Chromium then sends, at each path.
  await t.test('a page of another origin cannot use the test controls', async (t) => {
    const { controlUrl = '' } = await start(t, { controlPort: 0, pets: DEMO_PETS })
    const { origin } = new URL((await start(t)).url)
    const page = await chromium.visit(`${origin.replace('127.0.0.1', 'evil.example')}/livez`)
    const seen: number[] = []
    page.on('response', (response) => void seen.push(response.status()))
    for (const body of ['undefined', `new Blob(['{"operation":"*","hangUp":true}'])`]) {
      const init = `{ method: 'POST', mode: 'no-cors', body: ${body} }`
      const type = await page.evaluate(`fetch('${controlUrl}/faults', ${init}).then((r) => r.type)`)
      assert.equal(type, 'opaque') // it was sent and got a response, which the page cannot read
    }
    assert.deepEqual(seen, [403, 403])

    // A person may look at them, by typing the address.
    const own = await chromium.visit(`${controlUrl}/pets`)
    assert.equal(await own.evaluate(`fetch('/requests').then((r) => r.status)`), 200)
  })

  await t.test('Chromium repeats a request whose connection broke, even a POST', async (t) => {
    const { origin: cors } = new URL((await start(t)).url)
    const petstore = await start(t, { cors })
    const page = await chromium.visit(`${cors}/livez`)
    const headers = JSON.stringify({ ...petstore.headers, 'content-type': 'application/json' })
    const init = `{ method: 'POST', headers: ${headers}, body: '{"name":"Rex","categoryId":1}' }`
    const lost = /^TypeError: Failed to fetch$/
    const add = `fetch('${petstore.url}/pets', ${init}).then((r) => r.text())`
    const rows: [fault: Fault, outcome: RegExp][] = [
      [{ operation: 'createPet', hangUp: true, done: true }, /^{"id":2,/],
      [{ operation: 'createPet', hangUp: true, times: 2 }, lost],
      [{ operation: 'createPet', body: 'cut', done: true }, lost],
    ]
    for (const [fault, outcome] of rows) {
      petstore.inject(fault)
      assert.match(await page.evaluate<string>(`${add}.catch(String)`), outcome)
    }
    const posts = petstore.requests.filter(({ method }) => method === 'POST')
    const statuses = posts.map(({ status }) => status)
    assert.deepEqual(statuses, [null, 201, null, null, 201])
    assert.equal(petstore.pets.length, 3)
  })

  for (const [width, colorScheme] of LOOKS) {
    await t.test(`axe finds nothing at ${width} pixels, ${colorScheme}`, async (t) => {
      const viewport = { width, height: 800 }
      const pets = [...DEMO_PETS, { name: 'x'.repeat(10_000), categoryId: -1 }]
      const { page, petstore, use } = await open(t, { pets }, { viewport, colorScheme })
      await chromium.check(page, 'start')
      petstore.inject({ operation: 'listPets', delay: 600_000 })
      await use(...giveKey({ '#count': 'Loading' }))
      await use(
        refresh({ '#count': /^13 / }),
        ...add('<b>Rex</b>', 'no', { '#categoryId-problem': 'must' }),
      )
      await use(...fetchOne('3', { '#fetched': 'Waldi' }), press('details:first-of-type summary'))
      await chromium.check(page, 'used')
      await petstore.close()
      await use(refresh({ '#list': LOST }), press('#fetch .primary', { '#fetched': LOST }))
      await chromium.check(page, 'stopped')
    })
  }
})
