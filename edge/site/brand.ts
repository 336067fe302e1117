/**
 * The shop's wiring of the page: its name, where its buttons lead, and how it signs readers in.
 * Colours and shapes are in brand.css beside this file. Build again after a change.
 */
export interface Brand {
  name: string
  links: {
    /** "Use it": where the coupon with this id is spent. */
    use(couponId: string): string
    /** "Open my coupon": the reader's coupons. */
    coupons: string
    /** "See others": what else the shop offers. */
    others: string
    /** "Sign in": comes back to `returnTo` (a path of this site) with `#login=<token>` added. */
    signIn(returnTo: string): string
  }
  /** Optional: gives the reader's login token, or undefined; asked when the page has none or it was refused. */
  login?: () => Promise<string | undefined>
}

export const brand: Brand = {
  name: 'Tidegate',
  links: {
    use: (couponId) => `/wallet#coupon=${encodeURIComponent(couponId)}`,
    coupons: '/wallet',
    others: '/wallet#others',
    signIn: (returnTo) => `/login?return_to=${encodeURIComponent(returnTo)}`,
  },
}
