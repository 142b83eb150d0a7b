package cliutil

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A Flag is a pflag.Value that validates its values. Errors appear while the command line is parsed, with the flag's name.
type Flag[T any] struct {
	To    *T
	Kind  string // the name of the values in the help
	Parse func(text string) (T, error)
	Show  func(T) string
}

// Set implements pflag.Value.
func (f Flag[T]) Set(text string) error {
	value, err := f.Parse(text)
	if err == nil {
		*f.To = value
	}
	return err
}

// String implements pflag.Value.
func (f Flag[T]) String() string { return f.Show(*f.To) }

// Type implements pflag.Value.
func (f Flag[T]) Type() string { return f.Kind }

// Int returns the value of a flag that sets n to a whole number from low to high.
func Int(n *int, low, high int) pflag.Value {
	return Flag[int]{To: n, Kind: "int", Parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= low && n <= high:
			return n, nil
		case high == math.MaxInt:
			return 0, fmt.Errorf("want a whole number, %d or more", low)
		}
		return 0, fmt.Errorf("want a whole number from %d to %d", low, high)
	}, Show: strconv.Itoa}
}

// Seed returns the value of a flag that sets the seed n.
//
// A seed for drawing is a signed 64-bit number, as in DataLoader and torch's generators. A seed for packing is not negative, because a
// manifest stores it unsigned, and at most the largest signed number, so that it is valid for drawing, too.
func Seed[T int64 | uint64](n *T) pflag.Value {
	low, zero := int64(math.MinInt64), T(0)
	if zero-1 > zero { // T has no sign
		low = 0
	}
	return Flag[T]{To: n, Kind: "int", Parse: func(text string) (T, error) {
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || n < low {
			return 0, fmt.Errorf("want a whole number from %d to %d", low, math.MaxInt64)
		}
		return T(n), nil
	}, Show: func(n T) string { return fmt.Sprint(n) }}
}

// A Group is flags that stand together in a command's help.
type Group struct {
	Title string
	Flags []string
}

// SetGroups divides the flags in a command's help. Flags of no group come last. It does without cobra's templates, which would
// keep the linker from leaving out unused methods: 10 MB.
func SetGroups(c *cobra.Command, groups ...Group) {
	var grouped []string
	for _, g := range groups {
		grouped = append(grouped, g.Flags...)
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		for _, g := range groups {
			fmt.Fprint(w, usages(g.Title, c.LocalFlags(), func(name string) bool { return slices.Contains(g.Flags, name) }))
		}
		fmt.Fprint(w, usages("Other flags", c.LocalFlags(), func(name string) bool { return !slices.Contains(grouped, name) }))
		fmt.Fprint(w, usages("Global flags", c.InheritedFlags(), func(string) bool { return true }))
		return nil
	})
}

// usages returns the help of some flags, under a title.
func usages(title string, flags *pflag.FlagSet, wanted func(name string) bool) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if wanted(f.Name) {
			set.AddFlag(f)
		}
	})
	return fmt.Sprintf("\n%s:\n%s\n", title, strings.TrimRight(set.FlagUsages(), "\n"))
}

// help prints a command's help as wide as the terminal.
func help(c *cobra.Command, _ []string) {
	long := regexp.MustCompile(`([^\n])\n(\S)`).ReplaceAllString(cmp.Or(c.Long, c.Short), "$1 $2") // a line for each paragraph
	fmt.Fprint(c.OutOrStdout(), Wrap(long+"\n\n"+c.UsageString()))
}

// columns returns the width of the help: that of the environment or the terminal, also where a pager reads it, or else 80.
func columns() int {
	width, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	for fd := 0; fd <= 2 && width <= 0; fd++ {
		width, _, _ = term.GetSize(fd)
	}
	if width <= 0 {
		width = 80
	}
	return min(max(width, 40), 120)
}

// hanging is the part of a line that is left of a description: a flag or a command and the gap behind it, or the line's indentation.
var hanging = regexp.MustCompile(`^ *(?:\S+(?: \S+)*  +)?`)

// Wrap breaks lines that are wider than the terminal. The rest of a description continues below its beginning, and that of an
// example behind a backslash, so that it can be typed.
func Wrap(text string) string {
	var out strings.Builder
	width, tail := columns(), ""
	for line := range strings.Lines(text) {
		switch line {
		case "Examples:\n":
			tail = " \\"
		case "\n":
			tail = ""
		}
		hang := utf8.RuneCountInString(hanging.FindString(line))
		if hang > width*2/3 {
			hang = 10
		}
		rest := []rune(strings.TrimRight(line, " \n"))
		for len(rest) > width {
			end := width - len(tail)
			for end > hang && rest[end] != ' ' {
				end--
			}
			if end == hang {
				break // the word is longer than the line
			}
			out.WriteString(strings.TrimRight(string(rest[:end]), " ") + tail + "\n")
			rest = []rune(strings.Repeat(" ", hang) + strings.TrimLeft(string(rest[end:]), " "))
		}
		out.WriteString(string(rest) + "\n")
	}
	return out.String()
}
