// Package style is the common style sheet of all pages: the status page of a server, and those of imgshard view and
// stats.
package style

import _ "embed"

// CSS has the colours for light and dark, text, tables, figures and pictures.
//
//go:embed style.css
var CSS string
