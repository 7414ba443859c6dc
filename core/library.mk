# The shared library of a C part, and the installation of both libraries. The Makefile that includes this has set
#
#   library          its name, as in -lmillrace
#   library_flags    compiler flags besides those of variants.mk
#   library_objects  the objects of the static library: build/plain/...
#   library_links    what the shared library is linked with
#   public_headers   the headers to install
#
# and has beside it $(library).map, the exported symbols, and $(library).pc.in for pkg-config.
#
#   make shared                     build/lib$(library).so
#   make install prefix=/usr/local  both libraries, headers and the file for pkg-config; also DESTDIR, libdir, includedir

# The number in the name of the shared library. Raise it when programs must be compiled again for a new version.
abi := 1

prefix ?= /usr/local
exec_prefix ?= $(prefix)
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
INSTALL ?= install

version := $(shell sed -n 's/^\#define MR_VERSION "\(.*\)"/\1/p' $(dir $(lastword $(MAKEFILE_LIST)))include/millrace.h)
shared := lib$(library).so.$(abi)
shared_objects := $(library_objects:build/plain/%=build/shared/%)

build/shared/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  CC $@"
	@$(CC) $(base_flags) $(library_flags) $(CPPFLAGS) $(CFLAGS) -fPIC -fno-semantic-interposition -MMD -MP -c -o $@ $<

build/shared/%.o: %.S Makefile
	@mkdir -p $(@D)
	@echo "  AS $@"
	@$(CC) -g -c -o $@ $<

-include $(shared_objects:.o=.d)

build/$(shared): $(shared_objects) $(library).map
	@echo "  LD $@"
	@$(CC) $(base_flags) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(shared) -Wl,--version-script=$(library).map \
	    -Wl,-z,defs -o $@ $(shared_objects) $(library_links)

build/lib$(library).so: build/$(shared)
	ln -sf $(shared) $@

build/$(library).pc: $(library).pc.in Makefile
	sed 's|@prefix@|$(prefix)|; s|@libdir@|$(libdir)|; s|@includedir@|$(includedir)|; s|@version@|$(version)|' $< >$@

.PHONY: shared install
shared: build/lib$(library).so

# The .pc file depends on variables, so it is always made again.
install: all shared
	@rm -f build/$(library).pc && $(MAKE) --no-print-directory build/$(library).pc
	$(INSTALL) -d $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/millrace
	$(INSTALL) -m 644 build/lib$(library).a $(DESTDIR)$(libdir)
	$(INSTALL) -m 644 build/$(shared) $(DESTDIR)$(libdir)
	ln -sf $(shared) $(DESTDIR)$(libdir)/lib$(library).so
	$(INSTALL) -m 644 $(public_headers) $(DESTDIR)$(includedir)/millrace
	$(INSTALL) -m 644 build/$(library).pc $(DESTDIR)$(libdir)/pkgconfig
