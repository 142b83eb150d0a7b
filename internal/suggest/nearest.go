// Package suggest finds the name that somebody meant who wrote another.
package suggest

import (
	"strings"
	"unicode/utf8"
)

// Hint returns " (did you mean NAME?)" with the known name most like the given one, and "" if no name is like it.
func Hint(given string, known []string) string {
	if name := Name(given, known); name != "" {
		return " (did you mean " + name + "?)"
	}
	return ""
}

// Name returns the first of the known names that differs in the fewest letters from the given one, or "" where all differ in more than
// a third. Upper and lower case are the same, and two letters that changed places are one difference.
func Name(given string, known []string) string {
	const longest = 60 // of a name worth comparing
	if utf8.RuneCountInString(given) > longest {
		return ""
	}
	best, least := "", longest
	for _, name := range known {
		if d := distance(strings.ToLower(given), strings.ToLower(name)); d < least && 3*d <= utf8.RuneCountInString(name)+1 {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters must be added, left out, replaced, or exchanged with the next one, to make b of a.
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
