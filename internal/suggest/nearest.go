// Package suggest finds the known name most like a misspelt one.
package suggest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Hint returns ` (did you mean "NAME"?)` with the known name most like a misspelt one, or "" if no name is like it.
func Hint(misspelt string, known []string) string {
	if name := Name(misspelt, known); name != "" {
		return fmt.Sprintf(" (did you mean %q?)", name)
	}
	return ""
}

// Name returns the known name nearest to a misspelt one, or "" if all differ in more than a third of their letters. It
// ignores case, and counts two exchanged letters as one difference.
func Name(misspelt string, known []string) string {
	const lengthMax = 60 // longer names are not compared
	if utf8.RuneCountInString(misspelt) > lengthMax {
		return ""
	}
	best, nearest := "", lengthMax
	for _, name := range known {
		if d := distance(strings.ToLower(misspelt), strings.ToLower(name)); d < nearest && 3*d <= utf8.RuneCountInString(name)+1 {
			best, nearest = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace, or swap with the next one, to turn a into b.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	before, last, row := make([]int, len(to)+1), make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(to)]
}
