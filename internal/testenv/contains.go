package testenv

import (
	"strings"
	"testing"
)

// Contains checks that a text has each of some parts.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
