import { mockClock } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { Dirent, linkSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, Server } from 'node:net'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { takeLock } from '../../src/files/lock.ts'
import { folderOf } from '../support.ts'
import { mayMount } from '../system/packages.ts'

const takeAndRelease = (file: string) => takeLock(file).then((lock) => lock.release())

test('a stopped process keeps its lock; a killed one does not', async (t) => {
  const folder = folderOf()
  const script = `import { takeLock } from './src/files/lock.ts'
    await takeLock('${folder}/pets')
    setInterval(() => {}, 1e6)
    console.log('held')`
  const args = ['--import', 'tsx', '--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  await assert.rejects(takeLock(`${folder}/pets`), /in use by an unknown process/)
  const asked = new Promise((resolve) => subscribe('net.client.socket', resolve))
  const taken = takeAndRelease(`${folder}/pets`)
  await asked
  await turn()
  child.kill('SIGKILL')
  await taken
  assert.deepEqual(readdirSync(folder), [])
})

test('one of many contenders takes a lock, even if a dead one is left', async () => {
  const folder = folderOf()
  for (let round = 0; round < 20; round++) {
    const left = createServer().listen(`${folder}/left`)
    await once(left, 'listening')
    const contenders = Array.from({ length: 8 }, () => takeLock(`${folder}/pets`))
    const taken = await Promise.allSettled(contenders)
    const locks = taken.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    assert.equal(locks.length, 1)
    for (const lock of locks) await lock.release()
    left.close()
    assert.deepEqual(readdirSync(folder), [])
  }
})

test('sees an owner where no entry of a folder says that it is a socket, as on Deno', async (t) => {
  t.mock.method(Dirent.prototype, 'isSocket', () => false)
  const file = `${folderOf()}/pets`
  const lock = await takeLock(file)
  await assert.rejects(takeLock(file), /is in use by process/)
  await lock.release()
})

test('removes what a kill left before the lock had its name', async () => {
  const folder = folderOf()
  const left = createServer().listen(`${folder}/left`)
  await once(left, 'listening')
  linkSync(`${folder}/left`, `${folder}/pets.lock-12345678`)
  left.close()
  await takeAndRelease(`${folder}/pets`)
  assert.deepEqual(readdirSync(folder), [])
})

test('leaves a file that is not a socket alone, whatever its name', async () => {
  const folder = folderOf()
  writeFileSync(`${folder}/pets.lock.mine`, 'mine')
  mkdirSync(`${folder}/pets.lock.yours`)
  await takeAndRelease(`${folder}/pets`)
  assert.deepEqual(readdirSync(folder), ['pets.lock.mine', 'pets.lock.yours'])
})

test('releases a lock although somebody asks for its owner and hangs up, or stays', async (t) => {
  const folder = folderOf()
  const lock = await takeLock(`${folder}/pets`)
  const [name = ''] = readdirSync(folder)
  assert.equal(statSync(lock.path).mode & 0o666, 0o666) // any user may ask
  connect(`${folder}/${name}`).destroy()
  const staying = connect({ path: `${folder}/${name}`, allowHalfOpen: true })
  t.after(() => staying.destroy())
  await once(staying, 'data')
  await lock.release()
  assert.deepEqual(readdirSync(folder), [])
})

test('an owner that lacks file descriptors to respond keeps its lock', async (t) => {
  const folder = folderOf()
  let count = 0
  let answer = 'itself'
  const owner = createServer((socket) => socket.end(count++ < 3 ? '' : answer))
  t.after(() => owner.close())
  await once(owner.listen(`${folder}/pets.lock.0`), 'listening')
  await assert.rejects(takeLock(`${folder}/pets`), /is in use by itself$/)
  answer = ''
  t.mock.method(Date, 'now', () => 0) // a user's test may have stopped it
  mockClock(t, () => count * 1_000)
  const isSilent = /in use by an unknown process$/
  await assert.rejects(takeLock(`${folder}/pets`), isSilent)
  assert.ok(count > 5)
})

test('an owner outlives a connection that the system refuses it', async (t) => {
  const { mock } = t.mock.method(Server.prototype, 'listen')
  const lock = await takeLock(`${folderOf()}/pets`)
  const server = mock.calls[0]?.this
  assert.ok(server instanceof Server)
  server.emit('error', new Error('accept EMFILE'))
  await lock.release()
})

test('refuses a path that no socket can have, with the reason', async () => {
  const folder = folderOf()
  await assert.rejects(takeLock(`${folder}/none/pets`), /pets must be in a folder that exists/)
  writeFileSync(`${folder}/file`, '')
  await assert.rejects(takeLock(`${folder}/file/pets`), /pets must be in a folder that exists/)
  const room = 103 - Buffer.byteLength(`${folder}/.lock.12345678`)
  await takeAndRelease(`${folder}/${'x'.repeat(room)}`)
  const tooLong = takeLock(`${folder}/${'x'.repeat(room + 1)}`)
  await assert.rejects(tooLong, /^Error: .* cannot be locked: .* longer than 103 bytes$/)
})

test('says what is wrong where a folder takes no socket', async (t) => {
  t.mock.method(Server.prototype, 'listen', function (this: Server) {
    const error = Object.assign(new Error('listen ENOTSUP'), { code: 'ENOTSUP' })
    process.nextTick(() => this.emit('error', error))
    return this
  })
  const sentence =
    /^Error: .* cannot be locked: its folder must be writable and take Unix sockets, .* ENOTSUP\)$/
  await assert.rejects(takeLock(`${folderOf()}/pets`), sentence)
})

const skip = !mayMount() && 'nothing may be mounted here'
test('says what is wrong where nothing may be written', { skip }, async (t) => {
  const folder = folderOf()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', folder])
  t.after(() => execFileSync('umount', [folder]))
  await assert.rejects(takeLock(`${folder}/pets`), /its folder must be writable .*EROFS/)
})
