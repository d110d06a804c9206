import fs from 'node:fs'

export function read(folder: string): Map<string, Buffer> {
  const names = fs.readdirSync(folder).filter((name) => fs.lstatSync(`${folder}/${name}`).isFile())
  return new Map(names.map((name) => [name, fs.readFileSync(`${folder}/${name}`)]))
}

export function fill(folder: string, files: ReadonlyMap<string, Buffer>): void {
  for (const name of fs.readdirSync(folder)) fs.unlinkSync(`${folder}/${name}`)
  for (const [name, content] of files) fs.writeFileSync(`${folder}/${name}`, content)
}
