import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'

/** Whether a command is here; Debian's package of it is installed where it is not, by one test at a time. */
export function isHere(command: string, debianPackage: string = command): boolean {
  const look = `command -v ${command}`
  const has = () => spawnSync('sh', ['-c', look]).status === 0
  if (has()) return true
  // Debian starts the services that it installs.
  const install = `apt-get update -qq; apt-get install -y -qq ${debianPackage}; service ${command} stop`
  spawnSync('flock', [`${tmpdir()}/petstore-packages`, 'sh', '-c', `${look} || { ${install}; }`], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: 'ignore',
  })
  return has()
}
