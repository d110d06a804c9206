import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { connect, createServer, Server } from 'node:net'
import { mock, test } from 'node:test'
import { takeLock } from '../../src/pets/lock.ts'
import { folderOf } from '../support.ts'

test('a lock is held by one, who is named to all others, until it is released', async (t) => {
  const path = `${folderOf(t)}/lock`
  const lock = await takeLock(path)
  await assert.rejects(takeLock(path), new RegExp(`^Error: is in use by process ${process.pid} on .+ since \\d{4}-`))
  await lock.release()
  assert.ok(!existsSync(path))
  await (await takeLock(path)).release()
})

test('a lock left by a killed process does not count', async (t) => {
  const folder = folderOf(t)
  const path = `${folder}/lock`
  const script = `import { takeLock } from './src/pets/lock.ts'; await takeLock('${path}'); setInterval(() => {}, 1e6); console.log('held')`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  await assert.rejects(takeLock(path), new RegExp(`is in use by process ${child.pid} `))
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.ok(existsSync(path))
  const lock = await takeLock(path)
  t.after(() => lock.release())
  assert.deepEqual(readdirSync(folder), ['lock'])
})

test('of many that find a left lock at once, one takes it', async (t) => {
  const path = `${folderOf(t)}/lock`
  const script = `require('net').createServer().listen('${path}', () => process.kill(process.pid, 'SIGKILL'))`
  spawnSync(process.execPath, ['-e', script])
  assert.ok(existsSync(path))
  const taken = await Promise.allSettled(Array.from({ length: 8 }, () => takeLock(path)))
  const locks = taken.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  assert.equal(locks.length, 1)
  for (const lock of locks) await lock.release()
})

test('a file that is no lock is left alone', async (t) => {
  const path = `${folderOf(t)}/lock`
  writeFileSync(path, 'mine')
  await assert.rejects(takeLock(path), /^Error: cannot be locked: .*lock is not a lock of this server$/)
  assert.equal(readFileSync(path, 'utf8'), 'mine')
})

test('an owner that does not answer is still an owner', async (t) => {
  const path = `${folderOf(t)}/lock`
  const silent = createServer().listen(path)
  t.after(() => silent.close())
  await once(silent, 'listening')
  await assert.rejects(takeLock(path), /^Error: is in use by a process that does not say who it is$/)
})

test('a path that cannot be locked is refused with the reason', async (t) => {
  await assert.rejects(takeLock(`${folderOf(t)}/none/lock`), /^Error: cannot be locked: .*ENOENT|EACCES/)
})

test('who hangs up while the owner is told does not harm it', async (t) => {
  const path = `${folderOf(t)}/lock`
  const lock = await takeLock(path)
  t.after(() => lock.release())
  connect(path).destroy()
  await assert.rejects(takeLock(path), /is in use by/)
})

test('a folder that takes no sockets is refused with the reason', async (t) => {
  const listen = mock.method(Server.prototype, 'listen', function (this: Server) {
    return this.emit('error', new Error('listen EPERM: operation not permitted'))
  })
  t.after(() => listen.mock.restore())
  await assert.rejects(takeLock(`${folderOf(t)}/lock`), /^Error: cannot be locked: listen EPERM/)
})

test('a path too long for a socket is refused, not cut short', async () => {
  await assert.rejects(takeLock(`/tmp/${'x'.repeat(99)}`), /^Error: cannot be locked: .* is longer than 103 bytes$/)
})

test('a guard left by a process that ended while it took the lock does not count', async (t) => {
  const path = `${folderOf(t)}/lock`
  writeFileSync(`${path}.guard`, '')
  utimesSync(`${path}.guard`, 0, 0)
  const lock = await takeLock(path)
  assert.ok(!existsSync(`${path}.guard`))
  await lock.release()
})

test('releasing a lock does not wait for who asks for its owner', async (t) => {
  const path = `${folderOf(t)}/lock`
  const lock = await takeLock(path)
  const asking = connect({ path, allowHalfOpen: true })
  t.after(() => asking.destroy())
  await once(asking, 'data')
  await lock.release()
  assert.ok(!existsSync(path))
  await (await takeLock(path)).release()
})

test('a guard that stands in the way and cannot be removed is refused', async (t) => {
  const path = `${folderOf(t)}/lock`
  mkdirSync(`${path}.guard`)
  let now = Date.now()
  const clock = mock.method(Date, 'now', () => (now += 6_000))
  t.after(() => clock.mock.restore())
  await assert.rejects(takeLock(path), /^Error: cannot be locked: .*lock\.guard stands in the way$/)
})
