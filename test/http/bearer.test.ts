import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isApiKey, Keyring } from '../../src/http/bearer.ts'

const NO_CREDENTIALS = 'Bearer realm="petstore"'
const INVALID_TOKEN = 'Bearer realm="petstore", error="invalid_token"'

const KEY = 'the-first-key'
const LONGEST = 'x'.repeat(256)
const KEYS = [KEY, 'a-second-key', '12345678', LONGEST, 'Aa0-._~+/key==']

/** The WWW-Authenticate of the 401 that a field leads to; undefined where it leads to none. */
function challenge(keyring: Keyring, authorization: string | undefined): string | undefined {
  const reply = keyring.refuse(authorization)
  if (reply === undefined) return undefined
  const [name, value, ...more] = reply.fields ?? []
  assert.equal(reply.status, 401)
  assert.equal(name, 'WWW-Authenticate')
  assert.deepEqual(more, [])
  const error: unknown = JSON.parse(String(reply.body))
  assert.ok(typeof error === 'object' && error !== null && 'message' in error)
  assert.deepEqual(error, { code: 'unauthorized', message: error.message, status: 401 })
  return value
}

describe('Keyring.refuse()', () => {
  const accepted: readonly [what: string, authorization: string][] = [
    ...KEYS.map((key): [string, string] => [`${key.slice(0, 16)}, one of several keys`, `Bearer ${key}`]),
    ['the scheme in small letters', `bearer ${KEY}`],
    ['the scheme in capitals', `BEARER ${KEY}`],
    ['the scheme in any case', `bEaReR ${KEY}`],
    ['several spaces between scheme and key (RFC 9110 §11.4: 1*SP)', `Bearer   ${KEY}`],
  ]
  for (const [what, authorization] of accepted) {
    test(`lets ${what} pass`, () => assert.equal(challenge(new Keyring(KEYS), authorization), undefined))
  }

  const withoutCredentials: readonly [what: string, authorization: string | undefined][] = [
    ['no field at all', undefined],
    ['an empty field', ''],
    ['the scheme alone', 'Bearer'],
    ['the scheme and a space', 'Bearer '],
    ['the scheme and spaces', 'Bearer   '],
    ['Basic', 'Basic dXNlcjpwYXNz'],
    ['Basic with the key', `Basic ${KEY}`],
    ['the key alone', KEY],
    ['a scheme that only begins like it', `Bearers ${KEY}`],
    ['a scheme that only ends like it', `XBearer ${KEY}`],
    ['no space between scheme and key', `Bearer${KEY}`],
    ['a colon behind the scheme', `Bearer: ${KEY}`],
    ['a tab behind the scheme', `Bearer\t${KEY}`],
    ['a space before the scheme', ` Bearer ${KEY}`],
  ]
  for (const [what, authorization] of withoutCredentials) {
    test(`answers ${what} with 401 and names no error`, () => {
      assert.equal(challenge(new Keyring(KEYS), authorization), NO_CREDENTIALS)
    })
  }

  const invalid: readonly [what: string, authorization: string][] = [
    ['another key of the same length', 'Bearer the-first-keY'],
    ['a key that differs in its first character', 'Bearer The-first-key'],
    ['the beginning of a key', 'Bearer the-first-ke'],
    ['a key with more behind it', `Bearer ${KEY}y`],
    ['a key in capitals', `Bearer ${KEY.toUpperCase()}`],
    ['a key too short to be one', 'Bearer 1234567'],
    ['the longest key with more behind it', `Bearer ${LONGEST}x`],
    ['a token far longer than any key', `Bearer ${'x'.repeat(16_000)}`],
    ['two tokens', `Bearer ${KEY} ${KEY}`],
    ['two tokens, the second wrong', `Bearer ${KEY} x`],
    ['two keys with a comma', `Bearer ${KEY},12345678`],
    ['a key in quotes', `Bearer "${KEY}"`],
    ['a key percent-encoded', 'Bearer %74he-first-key'],
    ['letters beyond ASCII', 'Bearer thé-first-key'],
  ]
  for (const [what, authorization] of invalid) {
    test(`answers ${what} with 401 invalid_token`, () => {
      assert.equal(challenge(new Keyring(KEYS), authorization), INVALID_TOKEN)
    })
  }

  test('forgets the candidate before: what a long one leaves behind completes no short one', () => {
    const keyring = new Keyring(['the-long-key-of-ann'])
    assert.equal(challenge(keyring, 'Bearer xxxxxxxxxxxxxxxx-of-ann'), INVALID_TOKEN)
    assert.equal(challenge(keyring, 'Bearer the-long-key'), INVALID_TOKEN)
    assert.equal(challenge(keyring, 'Bearer the-long-key-of-ann'), undefined)
  })

  test('accepts nothing where there is no key', () => {
    const keyring = new Keyring([])
    assert.equal(challenge(keyring, undefined), NO_CREDENTIALS)
    assert.equal(challenge(keyring, 'Bearer 12345678'), INVALID_TOKEN)
  })
})

describe('Keyring.replace()', () => {
  test('makes the new keys, and no others, the valid ones', () => {
    const keyring = new Keyring(['the-old-key', 'a-key-that-stays'])
    keyring.replace(['a-key-that-stays', 'the-new-key'])
    assert.equal(challenge(keyring, 'Bearer the-old-key'), INVALID_TOKEN)
    assert.equal(challenge(keyring, 'Bearer a-key-that-stays'), undefined)
    assert.equal(challenge(keyring, 'Bearer the-new-key'), undefined)
  })

  test('makes the new keys the ones that are blotted out', () => {
    const keyring = new Keyring(['the-old-key'])
    keyring.replace(['the-new-key'])
    assert.equal(keyring.redact('the-old-key the-new-key'), 'the-old-key [key]')
  })

  test('leaves the list that it is given as it is', () => {
    const keys = ['12345678', 'a-longer-key']
    new Keyring([]).replace(keys)
    assert.deepEqual(keys, ['12345678', 'a-longer-key'])
  })
})

describe('Keyring.redact()', () => {
  const keyring = new Keyring(['key-of-ann', 'key-of-ann-and-bob', 'a+b/c.d==', '$&$&$&$&'])
  const texts: readonly [what: string, text: string, redacted: string][] = [
    ['leaves a text without keys as it is', '/v1/pets/%20?limit=%31', '/v1/pets/%20?limit=%31'],
    ['blots out a key wherever it stands', 'key-of-ann/xkey-of-annx', '[key]/x[key]x'],
    ['blots out the longer of two keys of which one begins like the other', 'key-of-ann-and-bob', '[key]'],
    ['takes the characters of a key as they are', 'a+b/c.d== aab/cxd==', '[key] aab/cxd=='],
    ['blots out a key that encodeURIComponent() has encoded', '/a%2Bb%2Fc.d%3D%3D/x%2F', '/[key]/x%2F'],
    ['blots out a key of escapes in small letters', '%6b%65%79-of-ann', '[key]'],
    ['blots out a key in another case, which may be half of it', 'Key-Of-Ann', '[key]'],
  ]
  for (const [behaviour, text, redacted] of texts) {
    test(behaviour, () => assert.equal(keyring.redact(text), redacted))
  }

  test('leaves every text as it is where there is no key', () => {
    assert.equal(new Keyring([]).redact('/v1/pets'), '/v1/pets')
  })
})

describe('isApiKey()', () => {
  const cases: readonly [what: string, text: string, isKey: boolean][] = [
    ['7 characters', 'a'.repeat(7), false],
    ['8 characters', 'a'.repeat(8), true],
    ['256 characters', 'a'.repeat(256), true],
    ['257 characters', 'a'.repeat(257), false],
    ['every character of the token form', 'AZaz09-._~+/==', true],
    ['= alone', '========', false],
    ['= in the middle', 'abcd=efgh', false],
    ['a space', 'abcd efgh', false],
    ['a comma', 'abcd,efgh', false],
    ['a line end', 'abcdefgh\n', false],
    ['a letter beyond ASCII', 'abcdefgé', false],
    ['nothing', '', false],
  ]
  for (const [what, text, isKey] of cases) {
    test(`is ${isKey} for ${what}`, () => assert.equal(isApiKey(text), isKey))
  }
})
