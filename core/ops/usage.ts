/** What the CLI can do; shown by --help and with a wrong call. */
export const usage = `Operator's commands. Usage: npm run ops -- COMMAND [options]

  token --user U [--role R] [--ttl 24h]
      Prints a login of the local stack (.tidegate/keys.json). Shoppers have no role; roles are
      operator, approver, support, finance, auditor, order-service. Units of --ttl: s, m, h, d.

  campaign create --file F          makes a draft from a JSON file ("-": standard input)
  campaign submit|approve|reject|publish|pause|resume|end|void ID [--reason TEXT] [--version N]
  campaign increase ID --amount N --reason TEXT      adds coupons (an approver, not the maker)
  campaign pace ID --pace N|none [--burst N]         how many it accepts a second
  campaign show ID
  campaign list [--limit N] [--cursor C]
  inventory ID                      where its stock is
  audit [--target ID] [--limit N]   commands, done and refused, newest first
  leases                            which buckets may accept, and why the others may not
  rebuild --campaign ID [--dry-run] [--reason TEXT] [--force]
      Makes the campaign's gates in Redis again from the ledger; --dry-run only shows both. --force also where the
      ledger's own numbers don't add up.
  receipt TEXT                      honours an acceptance that Redis lost, for its user
  receipt verify --receipt TEXT     whose claim a receipt proves, offline, by RECEIPT_KEYS or the local stack's keys

  reviews [list] [--limit N]        claims held for review, and compensations that Redis contradicts
  reviews issue|reject|retry REQUEST [--reason TEXT]
  dead-letters [list] [--limit N]   claims that could not be issued, with cause and fields
  dead-letters replay|discard ID [--reason TEXT]

  archive export|replay --folder F [--until INSTANT]
      Exports the request log of DATABASE_URL as gzipped JSON lines, or rebuilds an empty database from them.

  ballot draw ID [--reason TEXT]    draws a ballot whose window is over
  ballot verify --campaign ID       runs its published draw again, here
  ballot verify --file F            the same, offline ("-": standard input)

  demo [--quota N] [--limit N] [--opens-in S] [--hours H] [--name TEXT]
      Creates, submits, approves and publishes a demo campaign.

Options of all of them
  --json        the result as JSON on the last line
  --core URL    the core; else TIDEGATE_CORE_URL, else the local stack's (.tidegate/endpoints.json)
  --token T     the login to use; else TIDEGATE_TOKEN, else one of the local stack with the role needed
  --key K       the Idempotency-Key: repeat a command that got no answer with its key (default: a new one)
  --version N   act only if the campaign is still at this version (default: the present one)

Exit codes: 0 done, 1 refused, 2 wrong call, 3 no answer.`
