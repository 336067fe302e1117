import type { Language } from './format.ts'
import type { Phase } from './model.ts'

/**
 * Every word of the page. `{n}` stands for seconds that count down, `{t}` for a time. A phase that has no text of
 * its own for a special case (a later day, a ballot, …) uses its plain one.
 */
export type StatusKey =
  | Phase
  | 'upcoming_later'
  | 'upcoming_early'
  | 'challenge_open'
  | 'challenge_pending'
  | 'challenge_wrong'
  | 'challenge_expired'
  | 'challenge_checking'
  | 'open_several'
  | 'open_ballot'
  | 'signed_out_upcoming'
  | 'signed_out_later'
  | 'paused_pending'
  | 'delivered_plain'

export interface Words {
  status: Record<StatusKey, string>
  action: Record<
    | 'get'
    | 'enter'
    | 'opens_in'
    | 'again_in'
    | 'sending'
    | 'checking'
    | 'use'
    | 'mine'
    | 'others'
    | 'sign_in'
    | 'look'
    | 'retry'
    | 'another'
    | 'loading',
    string
  >
  fact: Record<
    | 'check'
    | 'terms'
    | 'opens'
    | 'ends'
    | 'ended'
    | 'validity'
    | 'valid_until'
    | 'claiming'
    | 'shop_time'
    | 'per_person'
    | 'allocation'
    | 'days'
    | 'from_to'
    | 'limit'
    | 'first_come'
    | 'drip'
    | 'ballot',
    string
  >
  clock: Record<'fast' | 'slow', string>
  otherLanguage: string
  untitled: string
  nothing: string
}

const en: Words = {
  status: {
    loading: 'Fetching the offer…',
    offline: 'No connection. Trying again for you in {n} s.',
    missing: 'There is no offer at this address. Check the link, or see what else is on.',
    signed_out: 'Sign in first, so that the coupon can be yours.',
    signed_out_upcoming: 'Sign in first, so that the coupon can be yours. Opens at {t}.',
    signed_out_later: 'Sign in first, so that the coupon can be yours. Opens on {t}.',
    upcoming: "Opens at {t}. We'll enable the button for you.",
    upcoming_later: "Opens on {t}. We'll enable the button for you.",
    upcoming_early: "A moment early. We'll send it for you at {t}.",
    challenge: "Please confirm below that you're human, so that you're ready for {t}.",
    challenge_open: "It's open. Confirm below that you're human, and the button is yours.",
    challenge_pending: "Confirm below that you're human, and we'll send it for you.",
    challenge_wrong: "That check wasn't accepted. Please do it once more.",
    challenge_expired: 'That check ran out of time. Please do it once more.',
    challenge_checking: 'Thank you. Handing in your check…',
    challenge_lost: "The check couldn't be loaded. A content blocker or the network may be in its way.",
    challenge_over: "The check wasn't accepted three times. A new one comes in {n} s.",
    open: 'One per person.',
    open_several: 'Up to {n} per person.',
    open_ballot: 'One entry per person. The draw follows after {t}.',
    sending: 'Sending…',
    busy: 'Many people at once. Trying again for you in {n} s.',
    unknown: "We didn't hear back. Checking; you can't lose your place.",
    paused: "Paused for a moment. It opens here as soon as it's back.",
    paused_pending: "Paused for a moment. We'll send yours again as soon as it's back.",
    accepted: "You're in. Your coupon is being issued, usually within a second or two.",
    slow: "You're still in. Leave if you like: it will be in your wallet.",
    entered: "You're in the draw. After {t} the result is here and in your wallet.",
    review: "You're in. Someone is taking a closer look; the result will be in your wallet.",
    delivered: "It's yours, valid until {t}.",
    delivered_plain: "It's yours.",
    sold_out: 'All gone this time. Nothing was charged or used.',
    limit_reached: 'You already have yours.',
    not_eligible: "This one isn't for your account. Another one may be.",
    not_chosen: "The draw didn't pick you this time. Nothing was charged or used.",
    rejected: 'The shop turned this claim down. Nothing was charged or used.',
    withdrawn: 'The shop withdrew this offer. Nothing was charged or used.',
    ended: 'This offer is over. See what else is on.',
    failed: "That didn't go through. Try once more.",
  },
  action: {
    get: 'Get it',
    enter: 'Enter the draw',
    opens_in: 'Opens in',
    again_in: 'Again in',
    sending: 'Sending…',
    checking: 'Checking…',
    use: 'Use it',
    mine: 'Open my coupon',
    others: 'See others',
    sign_in: 'Sign in',
    look: 'Check now',
    retry: 'Try again',
    another: 'Get another',
    loading: 'One moment',
  },
  fact: {
    check: 'A quick check',
    terms: 'The fine print',
    opens: 'Opens',
    ends: 'Open until',
    ended: 'Ended',
    validity: 'Valid',
    valid_until: 'Valid until',
    claiming: 'Claiming',
    shop_time: "On the shop's clock",
    per_person: 'Per person',
    allocation: 'Who gets it',
    days: '{t} from the moment you get it',
    from_to: '{t} to {u}',
    limit: '{n} at most',
    first_come: "First come, first served, decided by the server's clock",
    drip: 'First come, first served; more are released bit by bit',
    ballot: 'Drawn by lot after the end; anyone can verify the draw',
  },
  clock: {
    fast: "Your device's clock is {t} fast. Server time",
    slow: "Your device's clock is {t} slow. Server time",
  },
  otherLanguage: '中文',
  untitled: 'A coupon for you',
  nothing: 'Nothing here',
}

const zh: Words = {
  status: {
    loading: '正在载入…',
    offline: '网络不通，{n} 秒后为您自动重试。',
    missing: '这个地址没有活动。请检查链接，或看看其他优惠。',
    signed_out: '请先登录，券才能发到您的账号。',
    signed_out_upcoming: '请先登录，券才能发到您的账号。{t} 开抢。',
    signed_out_later: '请先登录，券才能发到您的账号。{t} 开抢。',
    upcoming: '{t} 开抢，到点按钮会自动亮起。',
    upcoming_later: '{t} 开抢，到点按钮会自动亮起。',
    upcoming_early: '稍早了一点，{t} 一到就为您自动提交。',
    challenge: '请先在下方完成验证，{t} 开抢时就能直接领取。',
    challenge_open: '已经开抢。请在下方完成验证，随后即可领取。',
    challenge_pending: '请在下方完成验证，完成后为您自动提交。',
    challenge_wrong: '这次验证没有通过，请再做一次。',
    challenge_expired: '这次验证已超时，请再做一次。',
    challenge_checking: '已收到验证，正在提交…',
    challenge_lost: '验证没能载入，可能被拦截插件或网络挡住了。',
    challenge_over: '验证已三次未通过，{n} 秒后换一个新的。',
    open: '每人限领一张。',
    open_several: '每人限领 {n} 张。',
    open_ballot: '每人限参加一次，{t} 后抽签。',
    sending: '正在提交…',
    busy: '人太多啦，{n} 秒后为您自动重试。',
    unknown: '网络没有回音，正在为您确认，不会丢失名额。',
    paused: '活动暂停片刻，恢复后会在这里自动开启。',
    paused_pending: '活动暂停片刻，恢复后会为您自动提交。',
    accepted: '已受理，券正在发放，通常只需一两秒。',
    slow: '名额已保留，可先离开，到账后会出现在卡包。',
    entered: '已参加抽签，{t} 后在这里和卡包查看结果。',
    review: '已受理，正在人工复核，结果会出现在卡包。',
    delivered: '领取成功，有效期至 {t}。',
    delivered_plain: '领取成功。',
    sold_out: '本轮已抢光，没有扣除您的任何资格。',
    limit_reached: '您已领取过这张券。',
    not_eligible: '您的账号不在本次活动范围内，看看其他优惠吧。',
    not_chosen: '这次没有抽中，没有扣除您的任何资格。',
    rejected: '商家没有通过这次领取，没有扣除您的任何资格。',
    withdrawn: '商家已取消本次活动，没有扣除您的任何资格。',
    ended: '活动已结束，看看其他优惠吧。',
    failed: '没有提交成功，请再试一次。',
  },
  action: {
    get: '立即领取',
    enter: '参加抽签',
    opens_in: '距开抢',
    again_in: '自动重试',
    sending: '正在提交…',
    checking: '正在确认…',
    use: '去使用',
    mine: '查看我的券',
    others: '看看其他',
    sign_in: '登录',
    look: '立即查看',
    retry: '再试一次',
    another: '再领一张',
    loading: '请稍候',
  },
  fact: {
    check: '安全验证',
    terms: '使用规则',
    opens: '开抢时间',
    ends: '领取截止',
    ended: '已结束',
    validity: '有效期',
    valid_until: '有效期至',
    claiming: '领取时间',
    shop_time: '商家当地时间',
    per_person: '每人限领',
    allocation: '领取方式',
    days: '自到账起 {t}',
    from_to: '{t} 至 {u}',
    limit: '{n} 张',
    first_come: '先到先得，以服务器时间为准',
    drip: '先到先得，名额分批放出',
    ballot: '截止后抽签，任何人都可验证',
  },
  clock: {
    fast: '您的设备时钟快了 {t}。服务器时间',
    slow: '您的设备时钟慢了 {t}。服务器时间',
  },
  otherLanguage: 'English',
  untitled: '您有一张优惠券',
  nothing: '没有找到',
}

export const words: Record<Language, Words> = { en, zh }

/** Fills `{name}` with its value; a name without a value stays, so that the caller can place it itself. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole)
}
