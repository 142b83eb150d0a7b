// Package style is the look that all pages share: the status page of a server, and those that imgshard view and stats write.
package style

import _ "embed"

// CSS has the colours for light and dark, text, tables, figures and pictures.
//
//go:embed style.css
var CSS string
