// The examples of operation and the workflows, in the hands of others' tools; proxy.test.ts runs those of the proxies.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { HELP } from '../../src/settings.ts'
import { folderOf } from '../support.ts'
import { isHere, must, run } from './packages.ts'

const VALIDATOR = 'kubernetes-validate==1.37.0' // brings schemas, and a parser of YAML
const PYTHON = folderOf()
const WORKFLOWS = '.github/workflows'
const PARSER = 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))'

const python = (...args: string[]) => must('env', `PYTHONPATH=${PYTHON}`, 'python3', ...args)
const parse = (file: string) => JSON.parse(python('-c', PARSER, file))
const settings = Object.fromEntries(
  [...HELP.matchAll(/ (PETSTORE_\w+)\n.* \((.*)\)$/gm)].map(([, name, of]) => [name, of]),
)

/** How many seconds a stop may take by these variables; each must be known. */
function secondsToStop(env: Record<string, string>): number {
  for (const name of Object.keys(env)) assert.ok(name in settings, name)
  const given = { ...settings, ...env }
  return Number(given['PETSTORE_DRAIN']) + Number(given['PETSTORE_DRAIN_DELAY'])
}

const skip = !isHere('pip3', 'python3-pip') && 'there is no pip3'
if (!skip) must('pip3', 'install', '--quiet', '--target', PYTHON, VALIDATOR)

test('compose: both services restart, have rotated logs and a limit of memory, and time to stop', { skip }, () => {
  const [{ services }] = parse('examples/compose.yaml')
  for (const { restart, logging, mem_limit: memory } of [services.petstore, services.nginx]) {
    assert.deepEqual([restart, logging.driver], ['unless-stopped', 'json-file'])
    for (const limit of [memory, logging.options['max-size'], logging.options['max-file']]) assert.ok(limit)
  }
  const { environment, stop_grace_period: grace, volumes } = services.petstore
  assert.ok(Number.parseInt(grace, 10) > secondsToStop(environment))
  assert.ok(environment.PETSTORE_SNAPSHOT.startsWith(`${volumes[0].split(':')[1]}/`))
  const [file = ''] = services.nginx.volumes[0].split(':')
  assert.ok(existsSync(`examples/${file}`), file)
})

test('compose: docker-compose takes the file, and not without a key', { skip: !isHere('docker-compose') }, () => {
  const config = (keys: string) =>
    run('env', `PETSTORE_API_KEYS=${keys}`, 'docker-compose', '--file', 'examples/compose.yaml', 'config')
  assert.equal(config('key-of-the-tests').status, 0, config('key-of-the-tests').output)
  assert.match(config('').output, /PETSTORE_API_KEYS/)
})

test('Kubernetes: the schemas take the file, with one replica, key, volume and time to stop', { skip }, () => {
  python('-m', 'kubernetes_validate', '--strict', 'examples/kubernetes.yaml')
  const [{ spec }, { metadata }] = parse('examples/kubernetes.yaml')
  assert.deepEqual([spec.replicas, spec.strategy.type], [1, 'Recreate'])
  const { containers, volumes, terminationGracePeriodSeconds: grace, securityContext } = spec.template.spec
  const [{ env, volumeMounts, resources, ...container }] = containers
  const values = env.map(({ name, value = '' }: { name: string; value?: string }) => [name, value])
  const variables: Record<string, string> = Object.fromEntries(values)
  assert.ok(grace > secondsToStop(variables))
  assert.ok(env.find(({ name }: { name: string }) => name === 'PETSTORE_API_KEYS').valueFrom.secretKeyRef.key)
  assert.ok(variables['PETSTORE_SNAPSHOT']?.startsWith(`${volumeMounts[0].mountPath}/`))
  const [volume] = volumes
  assert.deepEqual([volumeMounts[0].name, volume.persistentVolumeClaim.claimName], [volume.name, metadata.name])
  assert.ok(resources.limits.memory && resources.requests.memory && resources.requests.cpu)
  assert.deepEqual([securityContext.runAsNonRoot, securityContext.fsGroup], [true, 65532])
  const probes = ['startupProbe', 'livenessProbe', 'readinessProbe'].map((probe) => container[probe].httpGet.path)
  assert.deepEqual(probes, ['/livez', '/livez', '/readyz'])
  const { periodSeconds, failureThreshold } = container.readinessProbe
  assert.ok(Number(variables['PETSTORE_DRAIN_DELAY']) > periodSeconds * failureThreshold, 'it is noticed in time')
})

test('workflows: actionlint finds nothing', { skip: run('go', 'version').status !== 0 && 'there is no go' }, () => {
  const folder = folderOf()
  const tool = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'
  must('env', `GOBIN=${folder}`, 'GOFLAGS=-modcacherw', 'go', 'install', tool)
  must(`${folder}/actionlint`, `${WORKFLOWS}/ci.yml`, `${WORKFLOWS}/release.yml`)
})

test('workflows: zizmor finds nothing', { skip }, () => {
  const folder = folderOf()
  must('pip3', 'install', '--quiet', '--target', folder, 'zizmor==1.32.0')
  must(`${folder}/bin/zizmor`, '--offline', '--persona=auditor', WORKFLOWS)
})
