package config

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"odradek/cmd/internal/credentials"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/state/rules"
	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/formats"
	"odradek/schemas/json"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// registryTLS begins the names of the settings of the registry's TLS.
const registryTLS = "schema_registry"

// RegistryConfig returns the configuration of the schema registry's client; ok is false
// if no registry is set. An error is from reading the files of certificates.
func (c *Config) RegistryConfig() (cfg registry.Config, ok bool, err error) {
	s := &c.Registry
	if len(s.URLs) == 0 {
		return cfg, false, nil
	}
	cfg = registry.Config{URLs: s.URLs, Username: s.Username, CacheDir: s.CacheDir, Grace: s.Grace, Headers: map[string]string{}}
	if cfg.CacheDir == Off {
		cfg.CacheDir = ""
	}
	if region := s.glueRegion(); region != "" {
		signer := credentials.NewAWS(region)
		cfg.Sign = func(ctx context.Context, req *http.Request, body []byte) error {
			return signer.Sign(ctx, req, "glue", body)
		}
	}
	switch {
	case s.OAuth.TokenURL != "":
		o, err := s.OAuth.source("schema_registry_oauth")
		if err != nil {
			return cfg, true, err
		}
		cfg.Token = credentials.NewTokens(o).Get
	case s.Token.Reveal() != "":
		cfg.Token = func(context.Context) (string, error) { return s.Token.Current(), nil }
	case s.Username != "":
		cfg.Password = s.Password.Current
	}
	// https://docs.confluent.io/cloud/current/security/authenticate/workload-identities/identity-providers/oauth
	for name, value := range map[string]string{"target-sr-cluster": s.Cluster, "Confluent-Identity-Pool-Id": s.Pool} {
		if value != "" {
			cfg.Headers[name] = value
		}
	}
	if s.CAFile != "" || s.CertFile != "" {
		t, err := kafka.NewTLS(kafka.TLSConfig{Settings: registryTLS, CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile})
		if err != nil {
			return cfg, true, err
		}
		cfg.Transport = credentials.Transport(t)
	}
	return cfg, true, nil
}

// glueRegion returns the region of AWS Glue; "" where the registry is another.
func (s *registrySettings) glueRegion() (region string) {
	for _, u := range s.URLs {
		if p, err := url.Parse(u); err == nil && region == "" {
			region = credentials.GlueRegion(p.Hostname())
		}
	}
	return region
}

// HasIDs reports whether there is a registry that gives schemas ids: AWS Glue does not.
func (s *registrySettings) HasIDs() bool { return len(s.URLs) > 0 && s.glueRegion() == "" }

// NewRegistry makes the client of the schema registry; nil where none is set. It sends no
// request yet.
func (c *Config) NewRegistry() (*registry.Client, error) {
	cfg, ok, err := c.RegistryConfig()
	if !ok || err != nil {
		return nil, err
	}
	return registry.New(cfg)
}

// deriveOutputFormat sets the default of OUTPUT_FORMAT: outputs are JSON where all records can be read without a registry and there is
// none that has ids for Avro's schemas, without which few programs can read it.
func (c *Config) deriveOutputFormat() {
	all := c.Mappings()
	format := avro.Format.Name
	if len(c.Registry.URLs) == 0 &&
		!slices.ContainsFunc(all, func(settings *Config) bool { return !formats.Plain(settings.Mapping.Format) }) {
		format = json.Format.Name
	}
	for _, settings := range append(all, c) {
		if settings.Output.Format == "" {
			settings.Output.Format = format
		}
	}
}

// OutputText says how scores and anomalies are written, and why, for people.
func (c *Config) OutputText() string {
	given := !c.isDefault("OUTPUT_FORMAT")
	switch {
	case c.Output.NeedsNoSchemas() && given:
		return "plain JSON"
	case c.Output.NeedsNoSchemas():
		return "plain JSON, because the records need no schema registry and there is none"
	case c.Registry.HasIDs():
		return "Avro, with the ids of its schemas in the registry"
	case c.Registry.glueRegion() != "":
		return "Avro in single-object encoding, because schemas of AWS Glue have no ids; " + Prefix + "OUTPUT_FORMAT=json makes it plain JSON"
	case given:
		return "Avro in single-object encoding, because there is no schema registry"
	}
	return "Avro in single-object encoding, because there is no schema registry; " + Prefix + "OUTPUT_FORMAT=json makes it plain JSON"
}

// NeedsNoSchemas reports whether no schema of the outputs is registered: they are not in Avro.
func (s *outputSettings) NeedsNoSchemas() bool { return s.Format == json.Format.Name }

// NoSchemaID returns how outputs are written whose schema has no id in a registry.
func (s *outputSettings) NoSchemaID() int32 {
	if s.NeedsNoSchemas() {
		return output.JSON
	}
	return output.SingleObject
}

// platformCacheDir returns the cache folder of this platform from the environment: systemd's
// for the service, else the user's; empty where there is none.
func platformCacheDir(env map[string]string, goos string) string {
	for _, name := range []string{"CACHE_DIRECTORY", "STATE_DIRECTORY"} {
		if dir, _, _ := strings.Cut(env[name], ":"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "schemas")
		}
	}
	var user string
	switch home := env["HOME"]; {
	case goos == "windows":
		user = env["LocalAppData"]
	case goos == "darwin" && home != "":
		user = filepath.Join(home, "Library", "Caches")
	case goos != "darwin":
		if user = env["XDG_CACHE_HOME"]; user == "" && home != "" {
			user = filepath.Join(home, ".cache")
		}
	}
	if !filepath.IsAbs(user) {
		return ""
	}
	return filepath.Join(user, "odradek", "schemas")
}

// stateDir returns the folder that systemd, or a container's configuration, keeps for the service; empty where there is none.
func stateDir(env map[string]string) string {
	if dir, _, _ := strings.Cut(env["STATE_DIRECTORY"], ":"); filepath.IsAbs(dir) {
		return dir
	}
	return ""
}

// NewDecoder makes the decoder of input records; reg is nil without a registry.
func (c *Config) NewDecoder(reg *registry.Client) (*formats.Decoder, error) {
	r, err := c.Reading()
	if err != nil {
		return nil, err
	}
	return processor.NewDecoder(&r, reg, c.subjects)
}

// Former returns what makes the decoder of another reading of the same topics.
func (c *Config) Former(reg *registry.Client) func(*rules.Reading) (schemas.Decoder, error) {
	return func(r *rules.Reading) (schemas.Decoder, error) { return processor.NewDecoder(r, reg, c.subjects) }
}

// DecoderOptions returns what a decoder of input records needs beside the mapping. It
// fails if the schema file cannot be read.
func (c *Config) DecoderOptions() (opts formats.Options, err error) {
	r, err := c.Reading()
	return processor.Options(&r, c.subjects), err
}

// subjects returns the subjects of the topics that these settings read.
func (c *Config) subjects() (subjects []string) {
	all := c
	if c.root != nil {
		all = c.root
	}
	for _, t := range all.Inputs() {
		if all.ForTopic(t) == c {
			subjects = append(subjects, schemas.Subject(t))
		}
	}
	return subjects
}
