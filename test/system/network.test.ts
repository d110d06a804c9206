// The networks that containers have: with IPv6, without it, or with nothing else.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isHere, run } from './packages.ts'

const ALLOWS = run('unshare', '--net', 'true').status === 0
const skip = !(ALLOWS && isHere('ip', 'iproute2')) && 'no network may be made here'

const WITH_IPV4 = 'ip address add 10.1.1.1/24 dev one'
const WITH_IPV6 = 'ip address add fd00::1/64 dev one nodad'
const NO_IPV6 = 'sysctl -qw net.ipv6.conf.all.disable_ipv6=1'

// Serves on `::`, then prints the status of the health check, and those of each address.
const SCRIPT = `
  const { spawn, spawnSync } = require('node:child_process')
  const { once } = require('node:events')
  const env = { ...process.env, HOST: '::', PORT: '8080', PETSTORE_LOG: 'off' }
  const server = spawn(process.execPath, ['dist/main.js'], { env })
  async function statusAt(origin) {
    const asked = await fetch(origin + '/readyz').catch(() => ({ status: null }))
    return asked.status
  }
  async function main() {
    const [greeting] = await once(server.stdout, 'data')
    const [, shown] = / listens on (http:.*)\\/v1/.exec(greeting)
    const health = spawnSync(process.execPath, ['dist/main.js', '--healthcheck'], { env })
    const ipv4 = await statusAt('http://10.1.1.1:8080')
    const ipv6 = await statusAt('http://[fd00::1]:8080')
    console.log(JSON.stringify({ health: health.status, shown: await statusAt(shown), ipv4, ipv6 }))
    server.kill()
  }
  void main()`

describe('on ::', { skip }, () => {
  for (const [network, setup, ipv4, ipv6] of [
    ['with IPv4 and IPv6', [WITH_IPV4, WITH_IPV6], 200, 200],
    ['with bindv6only', ['sysctl -qw net.ipv6.bindv6only=1', WITH_IPV4, WITH_IPV6], 200, 200],
    ['with IPv4 alone', [NO_IPV6, WITH_IPV4], 200, null],
    ['with IPv6 alone', ['ip address delete 127.0.0.1/8 dev lo', WITH_IPV6], null, 200],
  ] as const) {
    test(`in a network ${network} it is reached and healthy, and its greeting right`, () => {
      const link = 'ip link set lo up; ip link add one type veth peer name two'
      const up = 'ip link set one up; ip link set two up'
      const commands = [link, up, ...setup, 'exec "$0" -e "$1"'].join('; ')
      const { stdout, output } = run(
        'unshare',
        '--net',
        'sh',
        '-c',
        commands,
        process.execPath,
        SCRIPT,
      )
      assert.match(stdout, /^\{/, output)
      assert.deepEqual(JSON.parse(stdout), { health: 0, shown: 200, ipv4, ipv6 })
    })
  }
})
