// The rules of HTTP that take more than a transcript.
import { client, level, rule } from './suite.ts'

level('http', () => {
  rule('RFC 9110, 15.5.6: a 405 has Allow', async () => {
    const response = await client.ask('PROPFIND /pets') // it changes nothing, whatever the server
    response.should('405, or 501', [405, 501].includes(response.status))
    if (response.status === 405) response.shouldHave('Allow', '/^.*\\bGET\\b/')
  })

  rule('RFC 9110, 9.3.2: HEAD is answered as GET, without content', async () => {
    for (const path of ['/pets', '/none']) {
      const { status } = await client.ask(`GET ${path}`)
      const response = await client.ask(`HEAD ${path}`)
      response.should(`${status}, as GET`, response.status === status)
      response.should('without content', response.content.length === 0)
    }
  })

  rule('RFC 9110, 8.6: Content-Length is true, for HEAD too', async () => {
    for (const path of ['/pets', '/none']) {
      const response = await client.ask(`GET ${path}`)
      const head = await client.ask(`HEAD ${path}`)
      const { length } = response.content
      for (const one of [response, head]) {
        const isTrue = Number(one.header('content-length') ?? length) === length
        one.should(`with Content-Length: ${length}`, isTrue)
      }
    }
  })

  rule('RFC 9110, 8.6: a 204 has no Content-Length', async () => {
    const response = await client.ask('OPTIONS /pets')
    if (response.status === 204) response.shouldHave('Content-Length', undefined)
  })

  rule('RFC 9112, 6.1: a response to HTTP/1.0 has no Transfer-Encoding', async () => {
    const response = await client.ask({ ask: 'GET /pets', version: '1.0' })
    response.shouldHave('Transfer-Encoding', undefined)
  })
})
