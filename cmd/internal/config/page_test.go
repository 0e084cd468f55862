package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestPageSettings: each setting of the page's server that is wrong is named, and a page that others may read is known.
func TestPageSettings(t *testing.T) {
	dir := t.TempDir()
	authority, err := kafkatest.NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	pem, key, err := authority.Issue("server", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for name, content := range map[string][]byte{"cert": pem, "key": key, "ca": authority.PEM, "bad": []byte("nothing")} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair := []string{"ODRADEK_PAGE_TLS_CERT_FILE=" + files["cert"], "ODRADEK_PAGE_TLS_KEY_FILE=" + files["key"]}
	clientCA := "ODRADEK_PAGE_TLS_CLIENT_CA_FILE=" + files["ca"]
	for _, c := range []struct {
		environ []string
		fault   string // setting and problem; "": none
		open    bool
	}{
		{nil, "", false},
		{[]string{"ODRADEK_PAGE_ADDR=:9465"}, "", true},
		{[]string{"ODRADEK_PAGE_ADDR=:9465", "ODRADEK_PAGE_TOKEN=0123456789abcdef"}, "", false},
		{append(pair, "ODRADEK_PAGE_ADDR=:9465"), "", true},
		{append(pair, "ODRADEK_PAGE_ADDR=:9465", clientCA), "", false},
		{[]string{"ODRADEK_PAGE_ADDR=off"}, "", false},
		{[]string{"ODRADEK_PAGE_TOKEN=short"}, "PAGE_TOKEN: has 5 characters", false},
		{pair[:1], "PAGE_TLS_CERT_FILE: ODRADEK_PAGE_TLS_CERT_FILE and ODRADEK_PAGE_TLS_KEY_FILE go together", false},
		{[]string{clientCA}, "PAGE_TLS_CLIENT_CA_FILE: set, but the page's server has no certificate", false},
		{append(pair, "ODRADEK_PAGE_ADDR=127.0.0.1:9464", "ODRADEK_HTTP_ADDR=127.0.0.1:9464"), "PAGE_TLS_CERT_FILE: set, but probes", false},
		{append(pair, "ODRADEK_PAGE_TLS_CLIENT_CA_FILE="+files["bad"]), "holds no PEM certificate", false},
		{[]string{"ODRADEK_PAGE_TLS_CERT_FILE=" + files["bad"], pair[1]}, "PAGE_TLS_CERT_FILE: config: ", false},
	} {
		parsed, faults, _ := Parse(minimal(c.environ...))
		text := ""
		for _, f := range faults {
			text += f.String() + "\n"
		}
		if (text == "") != (c.fault == "") || !strings.Contains(text, c.fault) || len(faults) > 1 {
			t.Errorf("%q: faults %q, want %q", c.environ, text, c.fault)
		}
		if len(faults) == 0 && parsed.PageIsOpen() != c.open {
			t.Errorf("%q: open %t", c.environ, parsed.PageIsOpen())
		}
	}
}
