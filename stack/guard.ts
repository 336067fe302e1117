import { type ChildProcess, spawn } from 'node:child_process'

/**
 * A shell that outlives us by a moment. It reads lines from a pipe we hold; when the pipe closes, however we
 * ended (kill -9 too), it ends every process still on its list and removes the folders it was given.
 *
 * It signals process groups (`-pid`), so a child's own helpers go with it; each child leads a group of its own.
 */
const SCRIPT = `
trap '' INT TERM HUP QUIT
list=''
folders=''
# A zombie has ended; in a container nobody may ever collect it.
running() {
  kill -s 0 "$1" 2>/dev/null || return 1
  [ -r "/proc/$1/stat" ] || return 0
  IFS=' ' read -r pid name state rest <"/proc/$1/stat" 2>/dev/null || return 1
  [ "$state" != Z ]
}
while IFS=' ' read -r verb first second; do
  case $verb in
    add) list="$list $first:$second" ;;
    drop)
      kept=''
      for item in $list; do
        case $item in "$first":*) ;; *) kept="$kept $item" ;; esac
      done
      list=$kept ;;
    remove) folders="$folders
$first\${second:+ $second}" ;;
  esac
done
for item in $list; do kill -s "\${item#*:}" -- "-\${item%%:*}" 2>/dev/null; done
tries=0
while [ $tries -lt 100 ]; do
  alive=''
  for item in $list; do running "\${item%%:*}" && alive=yes; done
  [ -z "$alive" ] && break
  sleep 0.1
  tries=$((tries + 1))
done
for item in $list; do kill -s KILL -- "-\${item%%:*}" 2>/dev/null; done
IFS='
'
for folder in $folders; do [ -n "$folder" ] && rm -rf -- "$folder"; done
`

let guard: ChildProcess | undefined
const guarded = new Map<number, string>()
const temporary = new Set<string>()

function start(): ChildProcess {
  // detached: a Ctrl-C in the terminal reaches our whole process group and must not end the guard first.
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.unref()
  // The pipe must not keep us alive, and a guard that was killed is replaced, with the same list.
  const pipe = shell.stdin as (typeof shell.stdin & { unref(): void }) | null
  pipe?.unref()
  pipe?.on('error', () => undefined)
  shell.once('exit', () => {
    if (guard === shell) guard = undefined
    if (guarded.size > 0 || temporary.size > 0) ensure()
  })
  for (const [pid, signal] of guarded) pipe?.write(`add ${pid} ${signal}\n`)
  for (const folder of temporary) pipe?.write(`remove ${folder}\n`)
  return shell
}

function ensure(): ChildProcess {
  guard ??= start()
  return guard
}

/** Has the process group of `pid` ended when this process ends, with `polite` first and SIGKILL after 10 s. */
export function guardProcess(pid: number, polite: NodeJS.Signals): void {
  const shell = ensure()
  const name = polite.replace(/^SIG/, '')
  guarded.set(pid, name)
  shell.stdin?.write(`add ${pid} ${name}\n`)
}

/** Takes a process that has ended off the list, before its number is used again. */
export function releaseProcess(pid: number): void {
  if (guarded.delete(pid)) guard?.stdin?.write(`drop ${pid}\n`)
}

/** Has a temporary folder removed when this process ends, after the guarded processes are gone. */
export function removeAtExit(folder: string): void {
  if (folder.includes('\n') || !/^\/[^/]+\/./.test(folder))
    throw new Error(`Not a temporary folder: ${folder}`)
  const shell = ensure()
  temporary.add(folder)
  shell.stdin?.write(`remove ${folder}\n`)
}

/** Forgets a folder that was removed already. */
export function keepAtExit(folder: string): void {
  temporary.delete(folder)
}
