// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install ../../petstore-server-1.0.0.tgz` and then `node server.mjs`.
import { readFileSync } from 'node:fs'
import { startPetstore } from 'petstore-server'
import { openStore } from './store.mjs'

const { DATABASE_URL, HOST, PORT = '8080' } = process.env
const { PETSTORE_API_KEYS = '', PETSTORE_API_KEYS_FILE: keysFile } = process.env

/** The keys of the variable, and those of the file: one a line, `#` starts a comment. */
function readKeys() {
  const lines = keysFile ? readFileSync(keysFile, 'utf8').split('\n') : []
  const inFile = lines.map((line) => line.replace(/#.*/, ''))
  return [...PETSTORE_API_KEYS.split(','), ...inFile].map((key) => key.trim()).filter(Boolean)
}

const store = openStore(DATABASE_URL)
const options = { store, apiKeys: readKeys(), host: HOST, port: Number(PORT) }
const petstore = await startPetstore({ ...options, maxRequests: 0, log: 'json' })
const { url, log, close } = petstore
log.event('info', `process ${process.pid} listens on ${url}`)

process.on('SIGHUP', () => {
  try {
    const keys = readKeys()
    petstore.replaceKeys(keys)
    log.event('info', `SIGHUP received: the API keys were read again; valid keys: ${keys.length}`)
  } catch ({ message }) {
    log.event('error', `SIGHUP received: the API keys stay as they were: ${message}`)
  }
})
const stop = async (signal) => {
  log.event('info', `${signal} received`)
  process.exitCode = (await close(8_000)) === 0 ? 0 : 1
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop)
