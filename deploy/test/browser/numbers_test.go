package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestNumbers: numbers on the page have the digits that they were written with, or as many as tell computed values apart.
func TestNumbers(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(repository + "/cmd/internal/page/static")))
	t.Cleanup(server.Close)
	b := open(t)
	b.do(chromedp.Navigate(server.URL))
	b.wait("the programs of the page are there", `typeof Charts === 'object'`)
	for _, tt := range []struct{ value, want string }{
		{"null", "–"}, {"0", "0"}, {"72.4", "72.4"}, {"-5", "-5"},
		{"101325.4", "101325.4"}, {"101325.40", "101325.4"}, {"1234567.5", "1234567.5"}, {"37076111", "37076111"}, {"-37076111.25", "-37076111.25"},
		{"Math.fround(2.8)", "2.8"}, {"Math.fround(1595.9)", "1595.9"}, {"Math.fround(1596.6)", "1596.6"}, {"1 / 3", "0.3333333"}, {"2e5 / 3", "66666.67"},
		{"2e10 / 3", "6.666667e9"}, {"1.2345e15", "1.2345e15"}, {"1e21 / 3", "3.333333e20"}, {"2.5e-7", "2.5e-7"}, {"-1e-5 / 3", "-3.333333e-6"}, {"0.0004", "0.0004"},
	} {
		if got := b.text(fmt.Sprintf("Charts.short(%s)", tt.value)); got != tt.want {
			t.Errorf("%s is shown as %s, want %s", tt.value, got, tt.want)
		}
	}
	for call, want := range map[string]string{
		"score(24.0225601)": "24.023", "score(8)": "8", "score(null)": "–", "score(123456.7)": "123460", "score(0.00052713)": "0.00052713",
		"expected(70.04924, 93.947)": "70", "expected(71.5174, 72.1)": "71.517", "expected(0.398061, 0.3597)": "0.3981",
		"expected(101325.43, 101325.4)": "101325.43", "expected(null, 5)": "–", "expected(70.049241, null)": "70.049241", "expected(5, 5)": "5",
		"expected(231.7, 37076111)": "232",
	} {
		if got := b.text("Charts." + call); got != want {
			t.Errorf("%s is %s, want %s", call, got, want)
		}
	}
}
