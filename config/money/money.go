// Package money implements exact decimal amounts for prices and costs.
package money

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Amount is an exact decimal amount in the currency of the configured prices. Micros are millionths
// of the currency. Picos are millionths of a micro, from 0 to 999,999.
type Amount struct {
	Micros int64
	Picos  int32
}

const perMillion = 1_000_000

// maxAmount is the maximum amount in a configuration. It is far above any real budget.
const maxAmount = 1e12

// Parse parses an amount with at most six decimals, such as 100, 100.00 or 0.075.
func Parse(s string) (Amount, error) {
	whole, rest, _ := strings.Cut(s, ".")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	switch {
	case whole == "" || !digits(whole) || !digits(rest) || strings.HasSuffix(s, "."):
		return Amount{}, fmt.Errorf("%q is not an amount: write a decimal number such as 100.00", s)
	case len(rest) > 6:
		return Amount{}, fmt.Errorf("%q has more than six decimals", s)
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > maxAmount {
		return Amount{}, fmt.Errorf("%q is too much: at most %d", s, int64(maxAmount))
	}
	part, _ := strconv.ParseInt((rest + "000000")[:6], 10, 64)
	return Amount{Micros: n*perMillion + part}, nil
}

// Zero reports whether a is zero.
func (a Amount) Zero() bool { return a == Amount{} }

// Plus returns a + n.
func (a Amount) Plus(n Amount) Amount {
	picos := a.Picos + n.Picos
	return Amount{a.Micros + n.Micros + int64(picos/perMillion), picos % perMillion}
}

// Minus returns a - n. n must not exceed a.
func (a Amount) Minus(n Amount) Amount {
	if a.Picos < n.Picos {
		a.Micros, a.Picos = a.Micros-1, a.Picos+perMillion
	}
	return Amount{a.Micros - n.Micros, a.Picos - n.Picos}
}

// Less reports whether a is less than n.
func (a Amount) Less(n Amount) bool {
	return a.Micros < n.Micros || a.Micros == n.Micros && a.Picos < n.Picos
}

// DividedBy returns the amount divided by n, rounded down to a millionth. If n is less than 2, it
// returns a.
func (a Amount) DividedBy(n int) Amount {
	if n < 2 || a.Zero() {
		return a
	}
	return Amount{Micros: max(1, a.Micros/int64(n))}
}

// String returns the shortest decimal form, such as 12, 12.5 or 0.000000123456.
func (a Amount) String() string {
	s := fmt.Sprintf("%d.%06d%06d", a.Micros/perMillion, a.Micros%perMillion, a.Picos)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalText returns the same text as String.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses the result of MarshalText.
func (a *Amount) UnmarshalText(b []byte) error {
	whole, rest, _ := strings.Cut(string(b), ".")
	if len(rest) > 12 {
		return fmt.Errorf("%q has more than twelve decimals", b)
	}
	rest = (rest + "000000000000")[:12]
	above, err := Parse(whole + "." + rest[:6])
	if err != nil {
		return err
	}
	picos, err := strconv.ParseUint(rest[6:], 10, 31)
	*a = Amount{above.Micros, int32(picos)}
	return err
}

// UnmarshalYAML implements the YAML decoder's interface.
func (a *Amount) UnmarshalYAML(b []byte) (err error) {
	*a, err = Parse(strings.Trim(strings.TrimSpace(string(b)), `"'`))
	return err
}

// Price contains a model's prices per million tokens, in millionths of the currency.
type Price struct{ Input, Cached, Output int64 }

// ParsePrice reads the prices per million tokens from a model's pricing: input, cached_input and
// output. cached_input defaults to the price of input. Tokens without a price are free.
func ParsePrice(pricing map[string]any) (p Price) {
	read := func(name string, otherwise int64) int64 {
		if amount, err := Parse(fmt.Sprint(pricing[name])); err == nil {
			return amount.Micros
		}
		return otherwise
	}
	p.Input = read("input", 0)
	p.Cached, p.Output = read("cached_input", p.Input), read("output", 0)
	return p
}

// CallCost returns the cost of a call. prompt includes the cached tokens.
func (p Price) CallCost(prompt, cached, completion int) Amount {
	cached = min(max(cached, 0), max(prompt, 0))
	return tokenCost(p.Input, prompt-cached).Plus(tokenCost(p.Cached, cached)).Plus(tokenCost(p.Output, completion))
}

func tokenCost(price int64, n int) Amount {
	if price <= 0 || n <= 0 {
		return Amount{}
	}
	hi, lo := bits.Mul64(uint64(price), uint64(n))
	if hi >= perMillion {
		return Amount{Micros: maxAmount} // cannot happen, because no engine reports this many tokens
	}
	micros, picos := bits.Div64(hi, lo, perMillion)
	return Amount{int64(min(micros, maxAmount*1000)), int32(picos)}
}
