# Packs build\installers\bundle\waymark into the Windows installer, in build\installers.
#
#   packaging\installers\windows\compile.ps1 [-SignedUninstallers FOLDER]
#
# `npm ci` in this folder installs the compiler, build.py makes the bundle and the icon.
param([string]$SignedUninstallers = "")
$ErrorActionPreference = "Stop"

$root = (Resolve-Path "$PSScriptRoot\..\..\..").Path
$build = "$root\build\installers"
$python = "$build\environment\Scripts\python.exe"
if (-not (Test-Path $python)) { $python = "python" }
$version = & $python "$root\packaging\installers\version.py"
$words = @("/Q", "/DVersion=$version", "/DBundle=$build\bundle\waymark", "/DIcon=$build\waymark.ico", "/O$build")
if ($SignedUninstallers) {
    $folder = (New-Item -ItemType Directory -Force $SignedUninstallers).FullName
    $words += "/DSignedUninstallers=$folder"
}
& "$PSScriptRoot\node_modules\innosetup-compiler\bin\ISCC.exe" @words "$PSScriptRoot\waymark.iss"
exit $LASTEXITCODE
