//go:build ignore

// Command grafana stands in for Grafana in scripts/compose-test.sh: it reads what is provisioned and the dashboards, ends with
// an error where it may not, and answers that it is healthy.
package main

import (
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
)

func main() {
	home := os.Getenv("GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH")
	for _, dir := range []string{"/etc/grafana/provisioning", filepath.Dir(home)} {
		files := 0
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			_, err = os.ReadFile(name)
			return err
		})
		if err != nil || files == 0 {
			log.Fatalf("%d files in %s: %v", files, dir, err)
		}
	}
	if _, err := os.Stat(home); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/api/health", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(":3000", nil))
}
