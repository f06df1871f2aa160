// The default theme with the fonts of the reader's system.

import Theme from 'vitepress/theme-without-fonts'
import './galatea.css'

export default Theme
