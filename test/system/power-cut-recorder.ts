// Preloaded by --import: records the server's disk operations and responses, and makes some fail.
import fs from 'node:fs'
import files, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { basename, dirname } from 'node:path'

type Text = Partial<Record<'name' | 'to' | 'data' | 'text', string>>
/** An event of a file (by handle id), of a name, or between client and server; data in base64. */
export type Event = Text & {
  op: string
  id?: number | undefined
  size?: number
  pets?: readonly string[]
}

const { RECORD = '', RECORD_FOLDER: folder = '' } = process.env
const record = fs.openSync(RECORD, 'a')
const handles = new WeakMap<object, number>()
let count = process.pid * 1e6
let steps = 0
export const stepsTaken = (): number => steps

/**
 * Whether an operation should fail now: a file next to the record says which, and how often, or
 * `step 3 5 7 7`: from the third to the fifth from now on, and the seventh.
 */
function fails(what: string): boolean {
  const [list = '', ...numbers] = fs.readFileSync(`${RECORD}.fail`, 'utf8').split(' ')
  if (list !== 'step') steps = 0
  else if (what === 'kill') return false
  else return isWithin(++steps, numbers.map(Number))
  return list.split(',').includes(what) && Math.random() < Number(numbers[0])
}

function isWithin(step: number, [first = Infinity, last = 0, ...more]: number[]): boolean {
  if (first <= step && step <= last) return true
  return more.length > 0 && isWithin(step, more)
}

function note(event: Event): void {
  fs.writeSync(record, `${JSON.stringify(event)}\n`)
  if (fails('kill')) process.kill(process.pid, 'SIGKILL')
}

const failure = (code: string) => Object.assign(new Error(`${code}: made to fail`), { code })
const { open, stat, lstat } = files
for (const [name, run] of Object.entries({ stat, lstat }))
  Object.assign(files, {
    async [name](path: string) {
      if (fails('stat')) throw failure('EIO')
      return run(path)
    },
  })
files.open = async (path, ...rest) => {
  if (fails('open')) throw failure('EIO')
  const handle = await open(path, ...rest)
  if (path !== folder && dirname(String(path)) !== folder) return handle
  handles.set(handle, ++count)
  note({ op: 'open', id: count, name: path === folder ? '.' : basename(String(path)) })
  return handle
}
for (const op of ['rename', 'link', 'unlink'] as const) {
  const run: (name: string, to: string) => Promise<void> = files[op]
  files[op] = async (name: unknown, to: unknown = '') => {
    if (fails('name')) throw failure('EIO')
    await run(String(name), String(to))
    note({ op, name: basename(String(name)), to: basename(String(to)) })
  }
}
syncBuiltinESMExports()

const probe = await open(RECORD)
const prototype: FileHandle = Object.getPrototypeOf(probe)
await probe.close()
const { truncate, sync, datasync } = prototype
const write: (this: FileHandle, bytes: Uint8Array) => Promise<{ bytesWritten: number }> =
  prototype.write
Object.assign(prototype, {
  async write(this: FileHandle, bytes: Buffer, offset = 0) {
    const isFull = fails('write')
    const end = isFull ? offset + Math.random() * (bytes.length - offset) : bytes.length
    const { bytesWritten } = await write.call(this, bytes.subarray(offset, end))
    const data = bytes.toString('base64', offset, offset + bytesWritten)
    note({ op: 'write', id: handles.get(this), data })
    if (isFull) throw failure('ENOSPC') // after it took a part
    return { bytesWritten, buffer: bytes }
  },
  async appendFile(this: FileHandle, text: string) {
    await this.write(Buffer.from(text))
  },
  async truncate(this: FileHandle, size = 0) {
    if (fails('truncate')) throw failure('EIO')
    await truncate.call(this, size)
    note({ op: 'truncate', id: handles.get(this), size })
  },
})
for (const [name, run] of Object.entries({ sync, datasync }))
  Object.assign(prototype, {
    async [name](this: FileHandle) {
      const isFailing = fails('sync')
      note({ op: 'sync', id: handles.get(this) })
      if (!isFailing) await run.call(this)
      note({ op: isFailing ? 'failed' : 'synced', id: handles.get(this) })
      if (isFailing) throw failure('EIO')
    },
  })

const { write: send } = net.Socket.prototype
Object.assign(net.Socket.prototype, {
  write(this: net.Socket, chunk: string | Uint8Array, ...rest: [encoding?: BufferEncoding]) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, rest[0]) : Buffer.from(chunk)
    const text = bytes.toString()
    if (/(?:^|\n)\{"id":| 204 /.test(text)) note({ op: 'response', text })
    return send.call(this, chunk, ...rest)
  },
})
