// The rules of HTTP that take more than a transcript.
import { atLeast, client, level, rule } from './suite.ts'

const PATHS = ['/pets', '/none']

level('http', () => {
  rule('RFC 9110, 11.6.1: a 401 has WWW-Authenticate with a challenge', async () => {
    for (const header of ['Authorization:', 'Authorization: Bearer not-a-key-of-this-server']) {
      const response = await client.ask({ ask: 'GET /pets', headers: [header] })
      response.shouldBe('401')
      response.shouldMatch('WWW-Authenticate', /^Bearer\b/i)
    }
  })

  rule('RFC 9110, 15.5.6: a 405 has Allow', async () => {
    const response = await client.ask('PROPFIND /pets') // it changes nothing, whatever the server
    response.should('405, or 501', [405, 501].includes(response.status))
    if (response.status === 405) response.shouldMatch('Allow', /\bGET\b/)
  })

  rule('RFC 9110, 9.3.2: HEAD is answered as GET, without content', async () => {
    for (const path of PATHS) {
      const { status } = await client.ask(`GET ${path}`)
      const response = await client.ask(`HEAD ${path}`)
      response.should(`${status}, as GET`, response.status === status)
      response.should('without content', response.content.length === 0)
    }
  })

  rule('RFC 9110, 8.6: Content-Length is true, for HEAD too', async () => {
    for (const path of PATHS) {
      const response = await client.ask(`GET ${path}`)
      const head = await client.ask(`HEAD ${path}`)
      const { length } = response.content
      for (const one of [response, head]) {
        const isTrue = Number(one.header('content-length') ?? length) === length
        one.should(`with Content-Length: ${length}`, isTrue)
      }
    }
  })

  rule('RFC 9110, 8.6: a 204 has no content and no Content-Length', async () => {
    const response = await client.ask('OPTIONS /pets')
    if (response.status !== 204) return
    response.shouldHave('Content-Length', undefined)
    response.should('without content', response.content.length === 0)
  })

  rule('RFC 9110, 6.6.1: a response has its Date', async () => {
    for (const path of PATHS)
      (await client.ask(`GET ${path}`)).shouldMatch('Date', /^\w{3}, \d\d \w{3} \d{4} .* GMT$/)
  })

  rule('RFC 9112, 6.1: a response to HTTP/1.0 has no Transfer-Encoding', async () => {
    const response = await client.ask({ ask: 'GET /pets', version: '1.0' })
    response.shouldHave('Transfer-Encoding', undefined)
  })

  rule('RFC 3986, 2.1: names and values of the query are percent-decoded', async () => {
    await atLeast(2)
    for (const query of ['limit=%31', 'lim%69t=1']) {
      const response = await client.ask(`GET /pets?${query}`)
      response.should('one pet', response.pets.length === 1)
    }
  })
})
