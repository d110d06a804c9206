// A process of clients that mean no good: `attackers.ts URL {"ATTACK":COUNT}`. Tells its parent when all are connected, and of
// each how it ended.
import { connect } from 'node:net'
import { AUTHORIZATION } from '../support.ts'

interface Attack {
  /** Written at once. */
  sends: string
  /** Written a byte a second. */
  drips?: string
  /** Ends its own side once all is sent. */
  halfCloses?: true
  /** Reads a byte a second. */
  sips?: true
}

/** With what status an attacker's connection ended. */
export interface End {
  name: string
  /** 0 where there was no answer. */
  status: number
}

const FIELDS = `HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n`
const HEAD = `GET /v1/pets?limit=5 ${FIELDS}`
const POST = `POST /v1/pets ${FIELDS}Content-Length: 60\r\n\r\n`
const BODY = '{"name":"'

const ATTACKS: Record<string, Attack> = {
  'sends its head by the byte': { sends: '', drips: HEAD },
  'sends its body by the byte': { sends: POST, drips: BODY + 'x'.repeat(40) },
  'sends nothing': { sends: '' },
  'falls silent in its head': { sends: HEAD },
  'falls silent in its body': { sends: POST + BODY },
  'half-closes in its head': { sends: HEAD, halfCloses: true },
  'half-closes in its body': { sends: POST + BODY, halfCloses: true },
  // The first answer fits into the system's buffers, the second does not: the server has to hold the rest of it.
  'reads by the byte': { sends: `${HEAD}\r\n`, sips: true },
  'reads 6 MB by the byte': { sends: `GET /v1/pets?limit=100 ${FIELDS}\r\n`, sips: true },
}

const SECOND = 1_000
/** Fewer than a listener's backlog: one that overflows makes the system wait. */
const AT_ONCE = 20

/** Attacks, and resolves when it is connected. */
function attack(url: string, name: string): Promise<void> {
  const { sends, drips = '', halfCloses, sips } = attackOf(name)
  const { hostname, port } = new URL(url)
  let received = ''
  return new Promise((resolve) => {
    const read = (bytes: number, buffer: Uint8Array) => {
      if (received.length < 20) received += Buffer.from(buffer.subarray(0, bytes)).toString('latin1')
      if (sips) setTimeout(() => socket.resume(), SECOND)
      return sips === undefined
    }
    const onread = { buffer: Buffer.alloc(sips ? 1 : 1_024), callback: read }
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: halfCloses === true, onread })
    let dripping: NodeJS.Timeout | undefined
    const finish = () => {
      clearInterval(dripping)
      socket.destroy()
      const [, status = 0] = /^HTTP\/1.1 (\d+)/.exec(received) ?? []
      process.send?.({ name, status: Number(status) } satisfies End)
    }
    socket.once('end', finish)
    socket.once('error', () => {})
    socket.once('close', (failed) => failed && finish())
    socket.once('connect', () => {
      if (halfCloses) socket.end(sends)
      else socket.write(sends)
      // Not before: what is written while the system still connects would stand in front of what it sends at once.
      let at = 0
      dripping = setInterval(() => at < drips.length && socket.write(drips.charAt(at++)), SECOND)
      resolve()
    })
  })
}

function attackOf(name: string): Attack {
  const found = ATTACKS[name]
  if (found === undefined) throw new Error(`There is no attack ${name}`)
  return found
}

const [, , url = '', counts = ''] = process.argv
const names = Object.entries<number>(JSON.parse(counts)).flatMap(([name, count]) => Array<string>(count).fill(name))
for (let at = 0; at < names.length; at += AT_ONCE) {
  await Promise.all(names.slice(at, at + AT_ONCE).map((name) => attack(url, name)))
}
process.send?.('connected')
