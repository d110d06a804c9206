// Closes a petstore and starts the next one on the same port, with clients that keep connections.
import { Agent, get } from 'node:http'
import axios from 'axios'
import { startPetstore } from 'petstore-server'

const rounds = Number(process.argv[2])
const agent = new Agent({ keepAlive: true })
const client = axios.create({ httpAgent: new Agent({ keepAlive: true }), proxy: false })

function getByAgent(url, headers) {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, headers }).on('error', reject)
    request.on('response', (response) => response.resume().on('end', resolve))
  })
}

const clients = {
  fetch: async (url, headers) => (await fetch(url, { headers })).text(),
  agent: getByAgent,
  axios: (url, headers) => client.get(url, { headers }),
}
const failed = []
for (const [name, request] of Object.entries(clients)) {
  let port = 0
  for (let round = 0; round < rounds; round++) {
    const petstore = await startPetstore({ port })
    port = Number(new URL(petstore.url).port)
    for (let times = 0; times < 2; times++) {
      await request(`${petstore.url}/pets`, petstore.headers).catch((error) => {
        failed.push(`${name}, round ${round}: ${error.cause?.code ?? error.code}`)
      })
    }
    await petstore.close()
  }
}
console.log(failed.join('\n') || 'no request failed')
process.exit()
