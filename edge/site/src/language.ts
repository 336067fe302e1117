import type { Language } from './format.ts'

const languageName = 'tidegate:language'

/** `?lang=`, then the reader's earlier choice, then the browser's languages; English where none is ours. */
export function chosenLanguage(query: URLSearchParams): Language {
  let kept: string | null = null
  try {
    kept = localStorage.getItem(languageName)
  } catch {
    // Storage may be switched off: the browser's languages decide.
  }
  for (const tag of [query.get('lang'), kept, ...navigator.languages]) {
    if (tag?.startsWith('zh')) return 'zh'
    if (tag?.startsWith('en')) return 'en'
  }
  return 'en'
}

export function keepLanguage(language: Language): void {
  try {
    localStorage.setItem(languageName, language)
  } catch {
    // The choice then holds for this page only.
  }
}
