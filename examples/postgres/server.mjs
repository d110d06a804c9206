import { startPetstore } from 'petstore-server'
import { openStore } from './store.mjs'

const { DATABASE_URL, HOST, PORT = '8080', PETSTORE_API_KEYS = '' } = process.env
const store = openStore(DATABASE_URL)
const apiKeys = PETSTORE_API_KEYS.split(',')
const options = { store, apiKeys, host: HOST, port: Number(PORT), maxRequests: 0, log: 'json' }
const { url, log, close } = await startPetstore(options)
log.event('info', `process ${process.pid} listens on ${url}`)
const stop = async () => (process.exitCode = (await close(8_000)) === 0 ? 0 : 1)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop)
